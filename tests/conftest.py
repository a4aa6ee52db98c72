import pytest
import torch

from protoreplay.protocols import Task


@pytest.fixture(autouse=True)
def _one_thread():
    """As in runs: results to the bit, and two test workers do not fight for two cores."""
    torch.set_num_threads(1)


def toy_task(position: int, classes: tuple[int, ...], shots: int = 4, size: int = 8) -> Task:
    """Images of blurred stripes, one pattern a class, in shuffled order."""
    random = torch.Generator().manual_seed(position)
    labels = torch.tensor(classes).repeat(shots)[torch.randperm(shots * len(classes), generator=random)]
    columns = torch.arange(size)
    patterns = torch.stack([((columns * (c + 1)) % 11 > 5).float() * 150 for c in range(10)])
    images = patterns[labels][:, None, None, :].expand(-1, 1, size, -1)
    noise = torch.randint(0, 100, images.shape, generator=random)
    return Task(position, classes, (images + noise).to(torch.uint8), labels)
