import numpy as np

from protoreplay.photos import advice
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel

D = 30


def model(means, each=50, seed=0, spread=1.0):
    random = np.random.default_rng(seed)
    rows = {name: mean + spread * random.normal(size=(each, D)) for name, mean in means.items()}
    keys = iter(range(10**6))
    taught = {name: PhotoClass.of(some, [next(keys) for _ in some]) for name, some in rows.items()}
    return PhotoModel("tiny", "f").learn(taught), rows


def test_expected_confusion_is_what_happens():
    direction = np.eye(D)[0]
    means = {"crow": 0 * direction, "raven": 1.5 * direction, "swan": 12 * direction}
    taught, _ = model(means, each=400)
    expected, back = advice.expected_confusions(taught)
    names = taught.head.names
    random = np.random.default_rng(5)
    crows = random.normal(size=(4000, D))
    scores, _ = taught.head.scores(crows)
    real = float((scores[:, names.index("raven")] > scores[:, names.index("crow")]).mean())
    told = expected[names.index("crow"), names.index("raven")]
    assert abs(told - real) < 0.1
    assert expected[names.index("crow"), names.index("swan")] < 0.01
    assert np.allclose(expected, back.T)
    assert np.array_equal(np.diag(expected), np.zeros(3))


def test_a_collision_is_told_once_and_only_of_what_is_new():
    direction = np.eye(D)[0]
    means = {"crow": 0 * direction, "raven": 0.5 * direction, "rook": 0.5 * direction, "swan": 12 * direction}
    taught, _ = model(means)
    found = advice.find_collisions(taught, ["raven"])
    assert {(c.one, c.other) for c in found} == {("raven", "crow"), ("raven", "rook")}
    assert str(found[0]).startswith("'raven' and '")
    assert len(advice.find_collisions(taught, ["raven", "rook"])) == 3
    assert advice.find_collisions(taught, ["swan"]) == []


def test_a_photo_in_the_wrong_folder_is_named():
    direction = np.eye(D)[0]
    means = {"crow": 0 * direction, "swan": 12 * direction}
    taught, rows = model(means, each=10)
    strayed = rows["crow"][0] + 12 * direction
    taught = taught.learn({"crow": PhotoClass.of(strayed[None], [10**7])})
    names = [f"crow/{i}.jpg" for i in range(10)] + ["crow/stray.jpg"]
    photos = {"crow": dict(zip([*range(10), 10**7], names)), "swan": dict(zip(range(10, 20), "abcdefghij"))}
    (found,) = advice.find_misplaced(taught, photos)
    assert (found.photo, found.taught, found.looks_like) == ("crow/stray.jpg", "crow", "swan")
    assert "looks like 'swan'" in str(found)


def test_one_class_or_one_photo_is_nothing_to_advise_on():
    taught, _ = model({"crow": np.zeros(D)}, each=1)
    assert advice.find_misplaced(taught, {"crow": {0: "a"}}) == []
    assert advice.find_collisions(taught, ["crow"]) == []
