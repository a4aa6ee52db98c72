import pytest
import torch

from protoreplay import evaluate, make_method, make_stream
from protoreplay.methods.base import MethodContext
from protoreplay.methods.vpr import VPR, VPRConfig
from protoreplay.metrics.accuracy import final_accuracy
from protoreplay.streams.stream import Task
from tests.conftest import toy_task

PLAIN = {"filters": 20, "patch": 4, "latent": 12, "views": 1, "augment_shift": 0, "augment_colour": 0.0}
PLAIN |= {"augment_erase": 0.0, "mirror": False, "few": 0.0, "shrink": 1.0, "ridge": 1.0, "lr": 0.003, "steps": 50}
TASKS = [toy_task(1, (0, 1), shots=10), toy_task(2, (2,), shots=10), toy_task(3, (3, 4), shots=10)]


def vpr(**settings):
    return VPR(VPRConfig(**{**PLAIN, **settings}), MethodContext((1, 8, 8), 10))


def taught(tasks=TASKS, **settings):
    method = vpr(**settings)
    for task in tasks:
        method.learn(task)
    return method


def between_classes():
    """Images of which it is hard to say what they are: means of two of different classes."""
    images = torch.cat([task.images for task in TASKS]).float()
    return torch.cat([(images + images.roll(10 * by, 0)) / 2 for by in (1, 2)]).to(torch.uint8)


def permuted(task, order, position):
    images = task.images.flatten(2)[:, :, order].view_as(task.images)
    return Task(position, task.classes, images, task.labels)


@pytest.mark.parametrize("steps", [0, 30])
@pytest.mark.parametrize("weighting", ["covariance", "variances"])
def test_prototypes_go_through_every_change_of_the_layer_exactly(weighting, steps):
    method = vpr(weighting=weighting, steps=steps)
    changes = []
    for number, task in enumerate(TASKS, start=1):
        before = method.layer.values
        method.learn(task)
        changes.append((method.layer.values - before).abs().max().item())
        seen = TASKS[:number]
        x = torch.cat([method.layer.times(method.embed(task.images)) for task in seen])
        labels = torch.cat([task.labels for task in seen])
        means = torch.stack([x[labels == label].mean(0) for label in labels.unique()])
        apart = x - means[torch.searchsorted(labels.unique(), labels)]
        carried_mean, carried_covariance = method.latent_prototypes()
        torch.testing.assert_close(carried_mean, means, rtol=1e-4, atol=1e-4)
        recomputed = apart.T @ apart / len(apart)
        if weighting == "variances":
            recomputed = recomputed.diagonal().diag()
        torch.testing.assert_close(carried_covariance, recomputed, rtol=1e-4, atol=1e-4)
    assert min(changes) > 1e-3


def test_answers_are_the_nearest_prototype_behind_the_layer():
    method = taught()
    images = between_classes()
    x = method.layer.times(method.embed(images))
    nearest = torch.cdist(x, method.latent_prototypes()[0]).argmin(1)
    assert len(nearest.unique()) > 2
    assert method.predict(images).tolist() == method.prototypes.classes[nearest].tolist()


def test_shrunk_prototypes_are_nearer_to_their_centre():
    method = taught(shrink=0.6)
    images = between_classes()
    means = method.latent_prototypes()[0]
    centre = means.mean(0)
    x = method.layer.times(method.embed(images))
    nearest = torch.cdist(x, centre + 0.6 * (means - centre)).argmin(1)
    assert method.predict(images).tolist() == method.prototypes.classes[nearest].tolist()
    assert nearest.tolist() != torch.cdist(x, means).argmin(1).tolist()


def test_few_images_tell_little_of_how_images_differ_and_views_what_views_do():
    method = taught(TASKS[:1], views=40, augment_shift=1, few=30.0, steps=0)
    random = method.generator("learn", 1)
    method.body.fit(TASKS[0].images, random)
    expected = torch.zeros(12, 12)
    for label, mean in zip((0, 1), method.prototypes.mean, strict=True):
        own = TASKS[0].images[TASKS[0].labels == label]
        views = method.embed(method._views(own, random)).view(4, 10, 12)
        centres = (views.mean(0) + method.embed(own)) / 2
        torch.testing.assert_close(mean, centres.mean(0))
        for of_view in views:
            for view, of_image, centre in zip(of_view, views.mean(0), centres, strict=True):
                expected += (view - of_image).outer(view - of_image)
                expected += 10 / (10 + 30) * (centre - mean).outer(centre - mean)
    torch.testing.assert_close(method.prototypes.scatter.values, expected, rtol=1e-4, atol=1e-4)


def test_no_image_is_kept_unless_images_are_replayed():
    assert not any(tensor.dtype == torch.uint8 and tensor.numel() for tensor in taught().state().values())
    method = taught(replay="images", stored_images=3)
    assert method.memory.classes.bincount().tolist() == [3] * 5


def test_what_is_replayed_changes_the_layer():
    trained = [taught(replay=replay, stored_images=10).layer.values for replay in ("samples", "means", "images")]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(trained[first], trained[second])


def test_samples_of_prototypes_have_their_mean_and_the_shared_covariance():
    method = taught(TASKS[:2], episode_shots=20_000, steps=1)
    _, root = method._whitening()
    views = [method.embed(TASKS[2].images[TASKS[2].labels == label]) for label in (3, 4)]
    support, query = method._episodes(3, views, root, method.generator("test"))()
    drawn = torch.cat([support, query], 1)[:3]
    torch.testing.assert_close(drawn.mean(1), method.prototypes.mean, rtol=0, atol=5e-3)
    apart = (drawn - method.prototypes.mean[:, None]).flatten(0, 1)
    torch.testing.assert_close(
        apart.T @ apart / len(apart), method.prototypes.covariance().dense(), rtol=0.05, atol=1e-4
    )


def test_several_prototypes_of_a_class():
    method = taught(prototypes="sqrt")
    assert method.prototypes.classes.bincount().tolist() == [3] * 5
    classes, means = method.prototypes.of(0).class_means()
    x = torch.cat([method.embed(task.images) for task in TASKS])
    labels = torch.cat([task.labels for task in TASKS])
    expected = torch.stack([x[labels == label].mean(0) for label in classes])
    torch.testing.assert_close(means, expected, rtol=1e-4, atol=1e-5)


def domains(**settings):
    """Images with a pattern in both directions, and the same in another order of pixels."""
    stream = make_stream("permuted-digits", tasks=3)
    method = make_method("vpr", stream, **settings)
    for task in stream:
        method.learn(task)
    return method, stream


def test_inputs_in_another_order_are_put_in_order():
    method, stream = domains()
    assert method.domains.homes.tolist() == [0, 0, 0]
    for position, order in ((2, method.domains.orders[1]), (3, method.domains.orders[2])):
        x = method.embed(stream.test_set(position)[0])[:, order]
        straight = method.embed(stream.test_set(1)[0])
        # Pixels that are dark in all digits cannot be told apart, and need not be.
        assert (x - straight).abs().mean() < 0.5 * (x - straight[:, order]).abs().mean()
    own, _ = domains(domains="own")
    assert own.domains.homes.tolist() == [0, 1, 2]
    counts = evaluate(method, stream, 3)
    assert final_accuracy(counts) > final_accuracy(evaluate(own, stream, 3)) > 0.8


def test_inputs_that_are_no_reordering_get_prototypes_of_their_own():
    method = vpr(body="pixels")
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(4).repeat(20)
    noise = torch.randint(0, 40, (80, 1, 8, 8), generator=random)
    # In the first domain a class is a bright row; in the second, a sum of two bright columns: no order makes it one.
    rows = noise.clone()
    rows[torch.arange(80), 0, labels] += 200
    columns = noise.clone()
    for part in (0, 1, 2):
        columns[torch.arange(80), 0, :, (labels + part) % 4 + part] += 100
    for position, images in ((1, rows), (2, columns)):
        method.learn(Task(position, (0, 1, 2, 3), images.clamp(max=255).to(torch.uint8), labels))
    assert method.domains.homes.tolist() == [0, 1]
    assert (method.predict(rows.clamp(max=255).to(torch.uint8)) == labels).float().mean() > 0.9
    assert (method.predict(columns.clamp(max=255).to(torch.uint8)) == labels).float().mean() > 0.9


def test_labels_that_say_nothing_teach_nothing():
    stream = make_stream("split-digits")
    correct = n = 0
    for seed in range(2):
        method = make_method("vpr", stream, seed=seed)
        random = torch.Generator().manual_seed(seed)
        tasks = list(stream)
        labels = torch.cat([task.labels for task in tasks])
        labels = labels[torch.randperm(len(labels), generator=random)]
        images = torch.cat([task.images for task in tasks])
        for position, task in enumerate(tasks, start=1):
            rows = (labels[:, None] == torch.tensor(task.classes)).any(1)
            method.learn(Task(position, task.classes, images[rows], labels[rows]))
        counts = evaluate(method, stream, len(stream))
        correct += sum(count.correct for count in counts)
        n += sum(count.n for count in counts)
    assert abs(correct / n - 0.1) < 0.05


def test_probabilities_say_how_often_answers_are_right():
    sure, right = [], []
    for seed in range(3):
        stream = make_stream("split-digits", seed=seed)
        method = make_method("vpr", stream, seed=seed)
        for task in stream:
            method.learn(task)
        for position in range(1, len(stream) + 1):
            images, labels = stream.test_set(position)
            sure.append(method.predict_proba(images).max(1).values)
            right.append(method.predict(images) == labels)
    assert torch.cat(sure).mean() == pytest.approx(torch.cat(right).float().mean().item(), abs=0.05)


def test_new_classes_after_a_domain_of_its_own():
    method = taught([TASKS[0], permuted(TASKS[0], torch.arange(64).flip(0), 2)])
    assert method.domains.homes.tolist() == [0, 1]
    method.learn(Task(3, TASKS[1].classes, TASKS[1].images, TASKS[1].labels))
    assert method.prototypes.of(0).classes.tolist() == [0, 1, 2]
    assert (method.predict(TASKS[1].images) == 2).float().mean() > 0.8


def test_no_more_prototypes_than_images():
    assert taught([toy_task(1, (0, 1), shots=2)], prototypes=5).prototypes.classes.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("seed", range(4))
def test_a_domain_of_two_images_is_split_into_two(seed):
    method = VPR(VPRConfig(**{**PLAIN, "body": "pixels"}), MethodContext((1, 8, 8), 10, seed))
    method.learn(TASKS[0])
    method.learn(toy_task(2, (0, 1), shots=1))
    assert len(method.domains) == 2


def test_settings_of_the_dictionary_are_settings_of_vpr():
    body = vpr(grid=2, field_width=7, threshold=0.5).body
    assert body.field.shape == (40, 7)
    assert body.projection.shape == (28, 12)
    assert body.settings.threshold == 0.5


def test_a_dictionary_as_it_always_was_is_not_written_down():
    """So that runs of before there was a choice are still the same runs."""
    assert not {"grid", "patch_count", "copies"} & VPRConfig(grid=3).model_dump().keys()
    assert VPRConfig(grid=4).model_dump()["grid"] == 4
    # What runs of before had otherwise is always written.
    assert {"threshold", "field_width"} <= VPRConfig().model_dump().keys()
