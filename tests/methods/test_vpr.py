import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from protoreplay import evaluate, make_method, make_stream
from protoreplay.methods.base import MethodContext
from protoreplay.methods.vpr import VPR, VPRConfig
from protoreplay.methods.vpr_calibration import TEMPERATURES
from protoreplay.metrics.accuracy import final_accuracy
from protoreplay.streams.stream import Task
from tests.conftest import toy_task

PLAIN = {"filters": 20, "patch": 4, "latent": 12, "views": 1, "augment_shift": 0, "augment_colour": 0.0}
PLAIN |= {"augment_erase": 0.0, "mirror": False, "few": 0.0, "shrink": 1.0, "ridge": 1.0}
TASKS = [toy_task(1, (0, 1), shots=10), toy_task(2, (2,), shots=10), toy_task(3, (3, 4), shots=10)]


def vpr(**settings):
    return VPR(VPRConfig(**{**PLAIN, **settings}), MethodContext((1, 8, 8), 10))


def taught(tasks=TASKS, **settings):
    method = vpr(**settings)
    for task in tasks:
        method.learn(task)
    return method


def posteriors(method, x):
    """Probabilities before the temperature, float64, of features, N x D."""
    method.calibration = torch.zeros_like(method.calibration)
    return method.predict_proba(torch.as_tensor(x).float(), embedded=True).double().numpy()


def between_classes():
    """Images of which it is hard to say what they are: means of two of different classes."""
    images = torch.cat([task.images for task in TASKS]).float()
    return torch.cat([(images + images.roll(10 * by, 0)) / 2 for by in (1, 2)]).to(torch.uint8)


def permuted(task, order, position):
    images = task.images.flatten(2)[:, :, order].view_as(task.images)
    return Task(position, task.classes, images, task.labels)


def features_of_all(method):
    x = torch.cat([method.embed(task.images) for task in TASKS]).double().numpy()
    return x, torch.cat([task.labels for task in TASKS]).numpy()


def spread(x, labels, weighting):
    """What is assumed of every class: the covariance within classes, from all images at once, with a ridge of 1."""
    apart = np.concatenate([x[labels == label] - x[labels == label].mean(0) for label in range(5)])
    found = apart.T @ apart / len(apart)
    level = np.eye(len(found)) * np.trace(found) / len(found)
    return {"covariance": found, "variances": np.diag(found.diagonal()), "none": level}[weighting] + level


@pytest.mark.parametrize("weighting", ["covariance", "variances", "none"])
def test_after_any_number_of_tasks_it_is_the_bayes_rule_of_gaussians_fitted_to_all_images(weighting):
    method = taught(weighting=weighting)
    x, labels = features_of_all(method)
    asked = method.embed(between_classes()).double().numpy()
    apart = asked[:, None] - np.stack([x[labels == label].mean(0) for label in range(5)])
    densities = np.exp(-np.einsum("nkd,de,nke->nk", apart, np.linalg.inv(spread(x, labels, weighting)), apart) / 2)
    expected = densities / densities.sum(1, keepdims=True)
    np.testing.assert_allclose(posteriors(method, asked), expected, atol=1e-4)
    assert 0.1 < np.median(expected.max(1)) < 0.999


def test_it_is_linear_discriminant_analysis_as_others_wrote_it():
    method = taught(ridge=3.0)
    x, labels = features_of_all(method)
    asked = method.embed(between_classes()).numpy()
    # A covariance with three mean eigenvalues more is four times one that is shrunk by three quarters.
    other = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.75).fit(x, labels)
    scores = other.decision_function(asked) / 4
    found = np.log(posteriors(method, asked))
    np.testing.assert_allclose(found - found[:, :1], scores - scores[:, :1], rtol=1e-3, atol=1e-3)


def gain_of_training(shrink=1.0):
    """By how much a head trained on samples of the prototypes fits them better than the closed form: twice, in nats."""
    method = taught([toy_task(1, (0, 1), shots=10), toy_task(2, (2, 3), shots=10)], latent=6, ridge=20.0, shrink=shrink)
    covariance, means = method.prototypes.covariance, method.prototypes.mean.double().numpy()
    spread = covariance.dense / covariance.freedom + 20 * covariance.mean_eigenvalue() * np.eye(6)
    random = np.random.default_rng(0)
    x = np.concatenate([random.multivariate_normal(mean, spread, 100_000) for mean in means])
    labels = np.repeat(np.arange(4), 100_000)
    same_scale = (x - x.mean(0)) / x.std()
    trained = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(same_scale, labels)
    own = np.arange(len(labels)), labels
    fits = [np.log(found[own]).sum() for found in (trained.predict_proba(same_scale), posteriors(method, x))]
    return 2 * (fits[0] - fits[1])


def test_a_head_trained_on_samples_of_the_prototypes_becomes_the_closed_form():
    # Three log-odds of seven weights each were fitted. If the closed form is where training ends, the gain follows the
    # chi-squared distribution of 21 degrees of freedom (Wilks): 21 on average, and once in 10,000 times above 54.
    assert 0 < gain_of_training() < stats.chi2.ppf(0.9999, 21)
    # Offsets that are a tenth off are told from it, so the samples are enough.
    assert gain_of_training(shrink=0.9) > 1000


def test_shrunk_prototypes_are_nearer_to_their_centre():
    method = taught(shrink=0.6)
    x, labels = features_of_all(method)
    means = np.stack([x[labels == label].mean(0) for label in range(5)])
    asked, inverse = method.embed(between_classes()).numpy(), np.linalg.inv(spread(x, labels, "covariance"))

    def nearest(means):
        apart = asked[:, None] - means
        return np.einsum("nkd,de,nke->nk", apart, inverse, apart).argmin(1).tolist()

    centre = means.mean(0)
    assert method.predict(between_classes()).tolist() == nearest(centre + 0.6 * (means - centre)) != nearest(means)


def images_and_views(method, task, label, random):
    own = task.images[task.labels == label]
    return method.embed(own), method.embed(method._views(own, random)).view(-1, len(own), method.body.width)


def test_few_images_tell_little_of_how_images_differ_and_views_what_views_do():
    method = taught(TASKS[:1], views=40, augment_shift=1, few=30.0)
    random = method.generator("learn", 1)
    method.body.fit(TASKS[0].images, random)
    expected = torch.zeros(12, 12, dtype=torch.float64)
    for label, mean in zip((0, 1), method.prototypes.mean, strict=True):
        images, views = images_and_views(method, TASKS[0], label, random)
        assert views.shape == (4, 10, 12)
        centres = (views.mean(0) + images) / 2
        torch.testing.assert_close(mean, centres.mean(0))
        for of_view in views:
            for view, of_image, centre in zip(of_view, views.mean(0), centres, strict=True):
                expected += (view - of_image).outer(view - of_image)
                expected += 10 / (10 + 30) * (centre - mean).outer(centre - mean)
    covariance = method.prototypes.covariance
    assert covariance.freedom == 80
    np.testing.assert_allclose(covariance.dense, expected, rtol=1e-4, atol=1e-5)


def test_the_temperature_is_told_by_images_left_out_with_all_their_views():
    method = taught(TASKS[:1], views=40, augment_shift=1, shrink=0.8)
    random = method.generator("learn", 1)
    method.body.fit(TASKS[0].images, random)
    pairs = [images_and_views(method, TASKS[0], label, random) for label in (0, 1)]
    covariance = method.prototypes.covariance
    level = covariance.mean_eigenvalue() * np.eye(12)
    losses = np.zeros(len(TEMPERATURES))
    for label in (0, 1):
        for left_out in range(10):
            means, scatter = [], 0
            for other, (images, views) in enumerate(pairs):
                kept = [place for place in range(10) if (other, place) != (label, left_out)]
                own = views[:, kept].double().numpy()
                centres = (own.mean(0) + images[kept].double().numpy()) / 2
                means.append(centres.mean(0))
                for rows in (*(own - own.mean(0)), *[centres - means[-1]] * len(own)):
                    scatter = scatter + rows.T @ rows
            inverse = np.linalg.inv(scatter / covariance.freedom + level)
            apart = np.stack(means) - np.mean(means, 0)
            x = pairs[label][0][left_out].double().numpy() - np.mean(means, 0)
            scores = apart @ inverse @ x - 0.8 / 2 * np.einsum("kd,de,ke->k", apart, inverse, apart)
            over = np.exp((scores - scores[label]) / TEMPERATURES.numpy()[:, None]).sum(1)
            losses += np.log(over)
    np.testing.assert_allclose(method.calibration, losses, rtol=1e-3, atol=1e-4)


def test_no_image_is_kept_and_a_symmetric_matrix_counts_once():
    method = taught()
    assert not any(tensor.dtype == torch.uint8 for tensor in method.state().values())
    kept = {item.name: item for item in method.ledger()}
    assert kept.keys() == {"classes", "body", "prototypes", "domains", "calibration"}
    # Five means, counts, classes and domains; the covariance on and above its diagonal.
    assert kept["prototypes"].numbers == 5 * 12 + 3 * 5 + 12 * 13 // 2
    assert kept["prototypes"].bytes == 4 * (5 * 12 + 12 * 13 // 2) + 8 * 3 * 5
    variances = {item.name: item.numbers for item in taught(weighting="variances").ledger()}
    assert variances["prototypes"] == 5 * 12 + 3 * 5 + 12


@pytest.mark.parametrize("weighting", ["covariance", "variances", "none"])
def test_in_the_latent_space_distances_are_those_that_answers_come_from(weighting):
    method = taught(weighting=weighting)
    images = between_classes()
    latent = method.latent()
    nearest = torch.cdist(latent.means(method.embed(images)), latent.mean).argmin(1)
    assert method.predict(images).tolist() == latent.classes[nearest].tolist()
    x, labels = features_of_all(method)
    behind = latent.means(torch.from_numpy(x).float())
    assert latent.mean.shape == latent.variance.shape == (5, 12)
    variances = torch.stack([behind[labels == label].var(0, correction=0) for label in range(5)]).mean(0)
    torch.testing.assert_close(latent.variance[0], variances, rtol=1e-3, atol=1e-4)


def test_a_ridge_too_small_for_the_numbers_is_refused():
    with pytest.raises(ValueError, match="ridge"):
        vpr(ridge=1e-6)


def test_images_that_do_not_vary_leave_answers_finite():
    images = torch.full((4, 1, 8, 8), 10, dtype=torch.uint8)
    images[2:, :, :4] = 200
    method = vpr(body="pixels")
    method.learn(Task(1, (0, 1), images, torch.tensor([0, 0, 1, 1])))
    assert method.predict(images).tolist() == [0, 0, 1, 1]
    assert method.predict_proba(images).isfinite().all()


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
