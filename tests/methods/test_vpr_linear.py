import itertools

import pytest
import torch

from protoreplay import evaluate, make_method, make_stream
from protoreplay.methods.base import MethodContext
from protoreplay.methods.class_statistics import ClassStatistics, packed, unpacked
from protoreplay.methods.vpr_linear import VPRLinear, VPRLinearConfig, identity_head, view_weights
from protoreplay.methods.vpr_paper import VPRPaper, VPRPaperConfig
from protoreplay.metrics.accuracy import final_accuracy
from protoreplay.prototypes.distances import expected_squared_distances
from protoreplay.prototypes.gaussians import Gaussian
from protoreplay.testing import CHECKS, Subject
from tests.conftest import toy_task

SMALL = {"filters": 20, "patch": 4, "latent": 12, "views": 1, "mirror": False, "dim": 6, "samples": 3}
SMALL |= {"epochs": 3, "steps": 20, "lr": 0.01}
TASKS = [toy_task(1, (0, 1), shots=10), toy_task(2, (2,), shots=10), toy_task(3, (3, 4), shots=10)]


def linear(**settings):
    return VPRLinear(VPRLinearConfig(**{**SMALL, **settings}), MethodContext((1, 8, 8), 10))


def taught(tasks=TASKS, **settings):
    method = linear(**settings)
    for task in tasks:
        method.learn(task)
    return method


def test_the_start_is_the_nearest_class_mean_of_the_features():
    method = taught(steps=0)
    images = torch.cat([task.images for task in TASKS])
    labels = torch.cat([task.labels for task in TASKS])
    noisy = (images.float() * 0.3 + 0.7 * images.roll(7, 0)).to(torch.uint8)
    features = method.embed(images)
    means = torch.stack([features[labels == label].mean(0) for label in range(5)])
    nearest = torch.cdist(method.embed(noisy), means).argmin(1)
    assert method.predict(noisy).tolist() == nearest.tolist()
    assert len(nearest.unique()) > 2
    first = features[: len(TASKS[0].labels)]
    apart = first - means[TASKS[0].labels]
    assert apart.square().mean().item() == pytest.approx(1, rel=1e-3)  # the scale of the features


def test_the_head_that_is_trained_on_is_where_it_starts_from():
    head, x = identity_head(4), torch.randn(3, 4)
    torch.testing.assert_close(head(x), torch.cat([x, torch.zeros(3, 4)], 1))


@pytest.mark.parametrize("body", ["dictionary", "trunk"])
@pytest.mark.parametrize("replay", ["images", "means", "samples"])
def test_old_prototypes_are_exactly_those_of_all_their_images_behind_the_new_head(body, replay):
    """Average of mean and of log-variance over the images, though no image of theirs is there any more."""
    method, heads = linear(body=body, replay=replay), []
    for number, task in enumerate(TASKS, start=1):
        method.learn(task)
        heads.append(method.head.weight.detach().clone())
        with torch.no_grad():
            kept = method.gaussian(method.statistics.mean)
            for label, mean, logvar in zip(method.statistics.classes.tolist(), *kept, strict=True):
                own = torch.cat([seen.images[seen.labels == label] for seen in TASKS[:number]])
                recomputed = method.gaussian(method.embed(own))
                torch.testing.assert_close(mean, recomputed.mean.mean(0), rtol=1e-4, atol=1e-4)
                torch.testing.assert_close(logvar, recomputed.logvar.mean(0), rtol=1e-4, atol=1e-4)
    assert all((later - earlier).abs().max() > 1e-3 for earlier, later in itertools.pairwise(heads))


def test_a_trunk_is_that_of_the_papers_form_after_its_first_task_and_stays_so():
    method = taught(TASKS, body="trunk")
    shared = {key: getattr(method.config, key) for key in ("encoder", "dim", "epochs", "batch_size")}
    paper = VPRPaper(VPRPaperConfig(**shared), method.context)
    paper.learn(TASKS[0])
    for name, weight in paper.network.trunk.state_dict().items():
        assert torch.equal(method.body.state_dict()[name], weight)
    untrained = taught(TASKS, body="trunk", steps=0)
    assert torch.equal(untrained.head.weight, paper.network.head.weight)
    assert not torch.equal(method.head.weight, paper.network.head.weight)


def test_the_trained_loss_is_the_mean_over_samples_of_the_papers():
    """By a loop over samples, queries and prototypes; also with weights."""
    for weighted in (False, True):
        method = taught(TASKS[:2], samples=4, weighted=weighted, tau=0.7)
        queries = method._episode(
            [method.embed(TASKS[2].images)[None]], method._replayed(method.generator("a")), _rng()
        )
        prototypes = method.gaussian(torch.cat([method.statistics.mean, queries[0]]))
        found = method._loss(queries[1], prototypes, _rng())
        random, images = _rng(), method.gaussian(queries[1].features)
        of_images = torch.randn(4, *images.mean.shape, generator=random)
        of_prototypes = torch.randn(4, *prototypes.mean.shape, generator=random)
        total = 0.0
        for z in range(4):
            for row, (target, share) in enumerate(zip(queries[1].targets, queries[1].share, strict=True)):
                x = images.mean[row] + (images.logvar[row] / 2).exp() * of_images[z, row]
                distances = []
                for mean, logvar, noise in zip(*prototypes, of_prototypes[z], strict=True):
                    weight = (-0.5 * logvar).exp() if weighted else 1.0
                    distances.append((weight * (x - mean - (logvar / 2).exp() * noise)).norm() / 0.7)
                probability = (-torch.stack(distances)).softmax(0)[target]
                total -= probability.log() * share / 4
        torch.testing.assert_close(found, total, rtol=1e-4, atol=1e-4)


def _rng():
    return torch.Generator().manual_seed(5)


def test_the_closed_form_is_what_many_samples_tend_to():
    """The expected squared distances to prototypes, weighted or not."""
    for weighted in (False, True):
        method = taught(TASKS[:2], weighted=weighted)
        x = method.embed(TASKS[2].images[:6])
        images, prototypes = method.gaussian(x), method.gaussian(method.statistics.mean)
        drawn, weight = images.sample(torch.randn(20_000, *x.shape, generator=_rng())), method._weight(prototypes)
        noise = torch.randn(20_000, *prototypes.mean.shape, generator=torch.Generator().manual_seed(6))
        apart = drawn[:, :, None] - prototypes.sample(noise)[:, None]
        squared = (apart.square() * (1.0 if weight is None else weight)).sum(-1).mean(0)
        expected = expected_squared_distances(images, prototypes, weight)
        torch.testing.assert_close(squared, expected, rtol=0.02, atol=0.02)


def test_samples_have_the_mean_and_the_variances_of_their_class():
    method = taught(TASKS[:2], covariance="class")
    drawn = _many_samples(method)
    for label, samples in enumerate(drawn):
        own = method.embed(torch.cat([task.images[task.labels == label] for task in TASKS[:2]]))
        torch.testing.assert_close(samples.mean(0), own.mean(0), rtol=0, atol=0.1)
        torch.testing.assert_close(samples.var(0), own.var(0, correction=0), rtol=0.1, atol=1e-4)
    correlation = torch.corrcoef(drawn[0].T) - torch.eye(drawn.shape[2])
    assert correlation.abs().max() < 0.1


def test_samples_with_a_shared_covariance_have_the_one_of_all_classes():
    method = taught(TASKS[:2], covariance="shared")
    drawn = _many_samples(method)
    features = [method.embed(task.images[task.labels == label]) for task in TASKS[:2] for label in task.classes]
    torch.testing.assert_close(drawn.mean(1), torch.stack([own.mean(0) for own in features]), rtol=0, atol=0.1)
    shared = torch.stack([own.T.cov(correction=0) for own in features]).mean(0)
    for samples in drawn:
        torch.testing.assert_close(samples.T.cov(), shared, rtol=0.1, atol=0.1)
    width = method.statistics.mean.shape[1]
    assert len(method.statistics.triangle) == width * (width + 1) // 2  # a symmetric matrix counts once
    assert method.statistics.variance.numel() == 0


def _many_samples(method):
    kept = method.statistics
    noise = torch.randn(len(kept), 10_000, kept.mean.shape[1], generator=_rng())
    return kept.samples(kept.deviations(), noise)


def test_a_packed_triangle_is_the_whole_matrix():
    for side in (1, 2, 5, 700):
        matrix = torch.randn(side, side, generator=_rng())
        matrix = matrix + matrix.T
        assert torch.equal(unpacked(packed(matrix)), matrix)
        assert len(packed(matrix)) == side * (side + 1) // 2


def test_images_are_kept_within_the_budget_and_only_where_they_are_replayed():
    method = linear(replay="images", budget=7)
    for number, task in zip((2, 3, 5), TASKS, strict=True):
        method.learn(task)
        assert len(method.memory) <= 7
        assert method.memory.classes.bincount().tolist() == [7 // number] * number
    assert {item.name: item.numbers for item in method.ledger()}["memory"] == 5 * (64 + 2)
    for replay in ("means", "samples"):
        assert not any(
            tensor.dtype == torch.uint8 and tensor.numel() for tensor in taught(replay=replay).state().values()
        )


def test_only_what_is_replayed_is_kept_of_a_class():
    shapes = {replay: taught(replay=replay).statistics for replay in ("images", "means", "samples")}
    assert [tuple(kept.mean.shape) for kept in shapes.values()] == [(5, 12)] * 3
    assert [tuple(kept.variance.shape) for kept in shapes.values()] == [(5, 0), (5, 0), (5, 12)]
    assert [len(kept.triangle) for kept in shapes.values()] == [0, 0, 0]


def test_what_is_replayed_changes_the_head():
    choices = [{"replay": "images"}, {"replay": "means"}, {"covariance": "class"}, {"covariance": "shared"}]
    heads = [taught(**choice).head.weight for choice in choices]
    for number, head in enumerate(heads):
        assert not any(torch.equal(head, other) for other in heads[:number])


def test_classes_count_alike_in_a_step():
    method = taught(TASKS[:2], replay="means", episode_shots=4)
    pool = method.embed(TASKS[2].images[TASKS[2].labels == 3])[None]
    support, queries = method._episode([pool], method._replayed(_rng()), _rng())
    assert support.shape == (1, 12)
    assert queries.targets.tolist() == [0, 1, 2, 3, 3, 3, 3]
    torch.testing.assert_close(queries.share, torch.tensor([1 / 4] * 3 + [1 / 16] * 4))


def test_support_and_query_are_different_images():
    method = linear(episode_shots=5)
    pool = torch.arange(10.0)[None, :, None] + torch.tensor([0.0, 100.0])[:, None, None]  # two views of ten images
    for _ in range(20):
        support, query = method._halves(pool, _rng())
        assert len(support) == len(query) == 5
        assert set((support % 100).flatten().tolist()).isdisjoint((query % 100).flatten().tolist())
    one = method._halves(pool[:, :1], _rng())
    assert [len(half) for half in one] == [1, 1]


def test_images_count_half_of_all_views():
    weight = view_weights(torch.zeros(4, 5, 2)).view(4, 5)
    assert weight.sum().item() == pytest.approx(1)
    assert weight[0].sum().item() == pytest.approx(0.5 + 0.5 / 4)
    assert torch.equal(view_weights(torch.zeros(1, 5, 2)), torch.full((5,), 0.2))


def test_a_class_that_comes_back_has_a_prototype_for_each_task():
    method = taught([toy_task(1, (0, 1)), toy_task(2, (0, 1)), toy_task(3, (1,))])
    assert method.statistics.tasks.tolist() == [1, 1, 2, 2, 3]
    assert method.statistics.classes.tolist() == [0, 1, 0, 1, 1]
    assert method.predict_proba(TASKS[0].images).shape == (20, 2)


def test_statistics_with_no_spread_keep_means_alone():
    kept = ClassStatistics.none(3, "none", torch.device("cpu"))
    kept = kept.plus(torch.tensor([[0.0, 0.0, 0.0], [2.0, 4.0, 6.0]]), torch.tensor([0.5, 0.5]), 1, 7)
    assert kept.mean.tolist() == [[1, 2, 3]]
    assert (kept.tasks.tolist(), kept.classes.tolist()) == ([1], [7])
    assert kept.variance.shape == (1, 0)
    assert len(kept.triangle) == 0


OTHER_FORMS = {
    "trunk": {"body": "trunk", "replay": "images"},
    "images": {"replay": "images"},
    "few images": {"replay": "images", "budget": 2},
    "means": {"replay": "means", "expectation": "closed-form", "distance": "squared"},
    "shared": {"covariance": "shared", "weighted": False},
    "views": {"views": 8, "augment_shift": 1},
    "untrained": {"steps": 0},
}
QUICK = SMALL | {"steps": 4, "encoder": "conv-small"}
PATIENT = ("learns_what_is_easy", "labels_may_be_in_any_order")


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_every_form_keeps_the_contract(form):
    for name, check in CHECKS.items():
        more = {"epochs": 40} if name in PATIENT else {}
        check(Subject.of("vpr-linear", {**QUICK, **OTHER_FORMS[form], **more}))


def test_digits_are_learned_class_by_class():
    stream = make_stream("split-digits", tasks=4)
    method = make_method("vpr-linear", stream, steps=20, samples=5)
    for task in stream:
        method.learn(task)
    assert final_accuracy(evaluate(method, stream, 4)) > 0.7


def test_variances_are_bounded():
    method = taught(TASKS[:1])
    with torch.no_grad():
        method.head.bias.fill_(1e6)
    assert isinstance(method.gaussian(method.statistics.mean), Gaussian)
    assert method.gaussian(method.statistics.mean).logvar.max() == 70
    assert torch.isfinite(method.predict_proba(TASKS[0].images)).all()
