import pytest
import torch

from protoreplay import make_stream
from protoreplay.core.errors import UserError
from protoreplay.data import digits
from protoreplay.data.catalog import DATASETS, import_dataset
from protoreplay.data.images import Dataset, ImageSet
from protoreplay.experiments.spec import RunSpec, resolve
from protoreplay.streams.protocols import get_protocol
from tests.data import fakes
from tests.data.test_mini_imagenet import CLASSES, PER_CLASS, copy, table


def of_class(label, count=3):
    return (digits.load().train.labels == label).nonzero().flatten()[:count].tolist()


def lines(*labels, count=3):
    return "".join(f"{index}\n" for label in labels for index in of_class(label, count))


def test_a_folder_of_sessions_says_classes_and_images(tmp_path):
    fakes.unpacked(
        tmp_path, {f"session_{n}.txt": lines(*who).encode() for n, who in enumerate([(3, 8), (0,), (5,)], 1)}
    )
    (tmp_path / "session_10.txt").unlink(missing_ok=True)
    stream = make_stream("fscil-digits", 4, shot_list=str(tmp_path), first_classes=9)
    assert [task.classes for task in stream] == [(3, 8), (0,), (5,)]
    assert stream.plans[0].train.tolist() == sorted(of_class(3) + of_class(8))
    assert stream.shots() == make_stream("fscil-digits", 9, shot_list=str(tmp_path), first_classes=9).shots()
    assert len(stream.test_set(1)[1]) == 100


@pytest.mark.parametrize("form", ["folder", "file"])
def test_a_list_without_a_base_session_gets_the_protocols(tmp_path, form):
    if form == "folder":
        fakes.unpacked(tmp_path, {f"session_{n}.txt": lines(n).encode() for n in range(2, 6)})
    else:
        (tmp_path / "list.txt").write_text("\n\n".join(lines(n) for n in range(2, 6)))
    path = tmp_path if form == "folder" else tmp_path / "list.txt"
    stream = make_stream("fscil-digits", shot_list=str(path))
    assert [task.classes for task in stream] == [(0, 1, 6, 7, 8, 9), (2,), (3,), (4,), (5,)]
    assert stream.plans[1].train.tolist() == of_class(2)
    assert len(stream.task(1).labels) == sum(len(of_class(label, 999)) for label in (0, 1, 6, 7, 8, 9))


def test_a_file_without_sessions_gives_shots_to_the_protocols_tasks(tmp_path):
    (tmp_path / "list.txt").write_text(lines(7, 1))
    stream, usual = (make_stream("split-digits", 2, **some) for some in ({"shot_list": f"{tmp_path}/list.txt"}, {}))
    assert [task.classes for task in stream] == [task.classes for task in usual]
    assert stream.plans[6].train.tolist() == of_class(7)
    assert stream.plans[3].train.tolist() == usual.plans[3].train.tolist()


def test_a_run_remembers_its_list(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text(lines(7, 1))
    spec = resolve("split-digits", "nearest-mean", 0, {"shot_list": str(path)})
    assert len(spec.stream_settings.shot_list_sha256) == 64
    assert RunSpec.from_plain(spec.to_plain()) == spec
    path.write_text(lines(1, 7))
    with pytest.raises(UserError, match="has changed: its SHA-256 was"):
        RunSpec.from_plain(spec.to_plain())
    assert "shot_list" not in str(resolve("split-digits", "nearest-mean", 0, {}).stream_settings.model_dump())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5\n\n99999\n", "list.txt, line 3: 99999 is not a training image: digits has 1297"),
        ("5\n-1\n", "list.txt, line 2: '-1' is not an index, and digits has no file names"),
        ("5\na/b.jpg\n", "list.txt, line 2: 'a/b.jpg' is not an index"),
        ("5\n6\n\n5\n", "list.txt, line 4: 5 is listed already, in .*list.txt, line 1"),
        ("\n\n", "list.txt is empty"),
        (f"{of_class(2)[0]}\n\n{of_class(2)[1]}\n", "class '2' is in two sessions, 1 and 2"),
    ],
)
def test_a_wrong_list_names_file_and_line(tmp_path, text, message):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(UserError, match=message) as error:
        make_stream("split-digits", shot_list=str(tmp_path / "list.txt"))
    assert "\n" not in str(error.value)


def test_a_wrong_place_or_use_of_a_list(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        make_stream("split-digits", shot_list="absent.txt")
    with pytest.raises(UserError, match=r"the folder has no session_1\.txt"):
        make_stream("split-digits", shot_list=str(tmp_path))
    fakes.unpacked(tmp_path, {f"session_{n}.txt": b"\xff" for n in (1, 3)})
    with pytest.raises(UserError, match=r"session_2\.txt is missing"):
        make_stream("split-digits", shot_list=str(tmp_path))
    (tmp_path / "session_3.txt").unlink()
    with pytest.raises(UserError, match="is not a text"):
        make_stream("split-digits", shot_list=str(tmp_path))
    (tmp_path / "session_1.txt").write_text(lines(1))
    with pytest.raises(UserError, match="a list leaves no validation images"):
        make_stream("split-digits", shot_list=str(tmp_path), evaluation="validation")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROTOREPLAY_DATA", str(tmp_path / "cache"))


@pytest.mark.usefixtures("own_cache")
def test_public_lists_name_images_by_path_and_may_name_test_images(tmp_path):
    import_dataset("mini-imagenet", fakes.unpacked(tmp_path / "copy", copy()))

    def paths(label, *numbers):
        return "".join(f"MINI-ImageNet/train/{label}/{label}{number:08}.jpg\n" for number in numbers).encode()

    # Images 0 and 1 of a class are the copy's test images: the list takes one of them.
    sessions = {"session_1.txt": paths("n01", 1, 4, 7) + paths("n05", 2), "session_2.txt": paths("n03", 3, 9)}
    place = fakes.unpacked(tmp_path / "list", sessions)
    small = {"first_classes": 4, "shot_list": str(place), "image_size": 84}
    stream = make_stream("split:mini-imagenet", **small)
    assert [task.classes for task in stream] == [(1, 2), (3,)]
    names = DATASETS.get("mini-imagenet").load(84).files()
    listed = [[names[i] for i in plan.train.tolist()] for plan in stream.plans]
    assert {name for session in listed for name in session} == {
        line.rpartition("/")[2] for text in sessions.values() for line in text.decode().split()
    }
    tested = [names[i] for i in stream.plans[0].test.tolist()]
    assert tested == ["n0100000000.jpg", "n0500000000.jpg", "n0500000001.jpg"]
    fakes.unpacked(place, {"test.txt": b"".join(paths(label, 0, 5) for label in CLASSES)})
    tested = [names[i] for i in make_stream("split:mini-imagenet", **small).plans[1].test.tolist()]
    assert sorted(tested) == ["n0300000000.jpg", "n0300000005.jpg"]
    fakes.unpacked(place, {"test.txt": paths("n03", 5)})
    with pytest.raises(UserError, match="leaves no test image of class 'n09'"):
        make_stream("split:mini-imagenet", **small)
    fakes.unpacked(place, {"test.txt": paths("n03", 3)})
    with pytest.raises(UserError, match=r"test\.txt, line 1: .*n0300000003.jpg is listed already, in .*session_2\.txt"):
        make_stream("split:mini-imagenet", **small)
    fakes.unpacked(place, {"session_2.txt": paths("n03", 3, 10)})
    with pytest.raises(UserError, match=r"session_2\.txt, line 2: n0300000010\.jpg is not among the images of this"):
        make_stream("split:mini-imagenet", **small)


@pytest.mark.usefixtures("own_cache")
def test_a_copy_that_cuts_images_instead_of_classes(tmp_path):
    files = {name: content for name, content in copy("mini/").items() if "images/" in name}
    for part, some in (("train", range(2, PER_CLASS)), ("test", range(2))):
        rows = [f"{label}{i:08}.jpg,{label}" for label in CLASSES for i in some]
        files[f"mini/split/{part}.csv"] = table("filename,label", *rows)
    import_dataset("mini-imagenet", fakes.unpacked(tmp_path / "copy", files))
    dataset = DATASETS.get("mini-imagenet").load(84)
    assert dataset.train.class_names == tuple(CLASSES)
    assert dataset.test.labels.bincount().tolist() == [2] * 4


def test_test_images_beyond_a_number_are_for_training():
    usual, more = make_stream("split-digits", shots="all"), make_stream("split-digits", shots="all", held_out=30)
    assert [len(plan.test) for plan in more.plans][1:] == [30] * 8
    for before, after in zip(usual.plans, more.plans, strict=True):
        count = len(before.classes)
        assert len(after.train) == len(before.train) + 20 * count
        assert torch.equal(more.test.images[after.test][:30], usual.test.images[before.test][: 50 * count][:30])
        assert not set(after.train.tolist()) & set(after.test.tolist())
    validation = make_stream("split-digits", 1000, "validation", held_out=30)
    assert not {*validation.plans[1].train.tolist()} & {*validation.plans[1].test.tolist()}


def test_the_usual_split_of_mini_imagenet_and_what_a_smaller_copy_says(small_cache):
    labels = torch.arange(100).repeat_interleave(600)
    full = ImageSet(torch.zeros(60000, 1, 1, 1, dtype=torch.uint8), labels, tuple(map(str, range(100))))
    tests = torch.arange(60000) % 600 < 120
    parts = (ImageSet(full.images[some], labels[some], full.class_names) for some in (~tests, tests))
    protocol, smaller = get_protocol("fscil-mini-imagenet"), get_protocol("fscil-mini-imagenet")
    assert (protocol.defaults.image_size, protocol.defaults.held_out) == (84, 100)
    note = "this copy of mini-imagenet has 14 training and 5 test images per class, not 500 and 100"
    assert smaller.shortfall(smaller.settings({"test_images": 3})).startswith(note)
    config = resolve("fscil-mini-imagenet", "nearest-mean", 0, {}).config(smaller.stream(0))
    assert config.versions["data"].startswith(note)
    whole = Dataset("mini-imagenet", *parts)
    DATASETS.register("whole", whole)
    try:
        stream = make_stream("split:whole", **{**dict(protocol.defaults), "image_size": 4})
    finally:
        DATASETS.unregister("whole")
    assert [len(plan.train) for plan in stream.plans] == [60 * 500, *[25] * 8]
    assert [len(plan.test) for plan in stream.plans] == [6000, *[500] * 8]


def test_class_order_from_a_list_and_from_a_file(tmp_path):
    order = "9,8,7,0,1,2,3,4,5,6"
    (tmp_path / "order.txt").write_text(order.replace(",", "\n") + "\n")
    for given in (order, str(tmp_path / "order.txt"), [int(c) for c in order.split(",")]):
        stream = make_stream("split-digits", 1, class_order=given)
        assert [task.classes for task in stream][:4] == [(8, 9), (7,), (0,), (1,)]
    spec = resolve("split-digits", "nearest-mean", 0, {"class_order": str(tmp_path / "order.txt")})
    assert RunSpec.from_plain(spec.to_plain()) == spec
    assert spec.stream_settings.model_dump(mode="json")["class_order"] == order.split(",")
    long = resolve("fscil-cifar100", "nearest-mean", 0, {"class_order": ",".join(map(str, range(100)))})
    assert len(long.variant) < 100
    for wrong, message in {
        "9,cat": "class_order lists 'cat', which is neither a class nor a number from 0 to 9",
        "9,9": "class_order lists class '9' twice",
        "9,8,7": "class_order lists 3 of 10 classes: '0' is missing",
    }.items():
        with pytest.raises(UserError, match=message):
            make_stream("split-digits", class_order=wrong)
