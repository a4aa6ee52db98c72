import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.methods.base import EncoderSettings
from protoreplay.methods.batches import batches, episodes, steps_per_epoch, steps_per_task


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(2, 40), st.integers(0, 2**32))
def test_episodes_deal_complementary_halves_of_every_class(sizes, batch_size, seed):
    groups = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    groups = groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))]
    config = EncoderSettings(epochs=2, batch_size=batch_size)
    dealt = list(episodes(groups, config, torch.Generator().manual_seed(seed)))
    assert len(dealt) == 2 * steps_per_epoch(len(groups), config)
    for support, query in dealt:
        assert len(set(support.tolist())) == len(support)
        assert len(set(query.tolist())) == len(query)
        for group, size in enumerate(sizes):
            ours, theirs = ({int(i) for i in part if groups[i] == group} for part in (support, query))
            assert ours
            assert theirs
            if size == 1:
                assert ours == theirs
            else:
                assert not ours & theirs
                assert 0 <= len(theirs) - len(ours) <= 1


def test_a_task_that_fits_is_split_whole_and_differently_each_time():
    groups = torch.arange(2).repeat_interleave(10)
    config = EncoderSettings(epochs=20, batch_size=128)
    dealt = list(episodes(groups, config, torch.Generator().manual_seed(0)))
    assert all(sorted([*support.tolist(), *query.tolist()]) == list(range(20)) for support, query in dealt)
    assert len({tuple(sorted(support.tolist())) for support, _ in dealt}) > 15


def test_most_images_are_met_in_a_pass():
    groups = torch.arange(10).repeat_interleave(480)
    config = EncoderSettings(epochs=1, batch_size=128)
    met = torch.cat([torch.cat(pair) for pair in episodes(groups, config, torch.Generator().manual_seed(0))])
    assert len(met.unique()) >= 0.9 * len(groups)


def test_batches_are_passes_over_all_images():
    config = EncoderSettings(epochs=3, batch_size=4)
    dealt = list(batches(10, config, torch.Generator().manual_seed(0)))
    assert [len(index) for index in dealt] == [4, 4, 2] * 3
    for epoch in range(3):
        assert sorted(torch.cat(dealt[3 * epoch : 3 * epoch + 3]).tolist()) == list(range(10))


@pytest.mark.parametrize("steps", [1, 3, 7, 100])
def test_at_most_so_many_steps_and_those_the_first_ones(steps):
    groups = torch.arange(2).repeat_interleave(5)
    whole, cut = EncoderSettings(epochs=3, batch_size=4), EncoderSettings(epochs=3, batch_size=4, max_steps=steps)
    random = torch.Generator()

    def dealt(config):
        yield [index.tolist() for index in batches(10, config, random.manual_seed(0))]
        yield [[part.tolist() for part in pair] for pair in episodes(groups, config, random.manual_seed(0))]

    for everything, some in zip(dealt(whole), dealt(cut), strict=True):
        assert some == everything[:steps]
        assert len(some) == steps_per_task(10, cut)


def test_runs_of_before_steps_could_be_limited_are_still_the_same_runs():
    assert "max_steps" not in EncoderSettings().model_dump()
    assert EncoderSettings(max_steps=7).model_dump()["max_steps"] == 7
