import pytest
import torch

from protoreplay.methods.vpr_calibration import DOUBT, TEMPERATURES, best_temperature, losses_at_temperatures


@pytest.mark.parametrize("truth", [0.1, 1.0, 25.0])
def test_the_temperature_that_made_the_labels_is_found(truth):
    random = torch.Generator().manual_seed(1)
    scores = 5 * truth * torch.randn(4000, 3, generator=random)
    targets = torch.multinomial((scores / truth).softmax(1), 1, generator=random).flatten()
    assert best_temperature(losses_at_temperatures(scores, targets)) == pytest.approx(truth, rel=0.3)


def test_answers_that_were_all_right_make_no_certainty():
    scores, targets = 100 * torch.eye(3), torch.arange(3)
    found = losses_at_temperatures(scores, targets)
    temperature = best_temperature(found)
    assert temperature > TEMPERATURES.min()
    loss = torch.nn.functional.cross_entropy(scores / temperature, targets, reduction="sum")
    assert 0.1 < loss <= DOUBT


def test_losses_add_up():
    scores, targets = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    parts = losses_at_temperatures(scores[:5], targets[:5]) + losses_at_temperatures(scores[5:], targets[5:])
    torch.testing.assert_close(losses_at_temperatures(scores, targets), parts)
