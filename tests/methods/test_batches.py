import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.methods.base import EncoderSettings
from protoreplay.methods.batches import batches, episodes, steps_per_epoch


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
