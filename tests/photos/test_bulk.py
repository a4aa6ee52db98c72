import json

import pytest

from protoreplay.core.errors import UserError
from protoreplay.photos import answer_formats, bulk, model_file
from tests.photos import fakes


@pytest.fixture
def asked(tmp_path):
    folder = fakes.photos(tmp_path / "asked", 4, start=50)
    (folder / "blue" / "broken.png").write_bytes(b"?")
    return sorted(folder.glob("*/*.png"))


def lines(taught, asked, work, run=bulk.answer_in_this_process, format="json"):
    content = model_file.model_to_bytes(taught.model)
    return list(bulk.answer_all(content, taught.encoder.name, asked, work, format, run, chunk=4))


def test_answers_are_those_of_predict_in_order(taught, asked, tmp_path):
    answers = list(taught.predict(asked))
    found = [json.loads(line) for line in lines(taught, asked, tmp_path / "work")]
    assert [one["photo"] for one in found] == [str(path) for path in asked]
    assert [one.get("label") for one in found] == [answer.label for answer in answers]
    assert [one.get("error", "") for one in found] == [answer.error for answer in answers]
    assert answer_formats.answer_as_json(answers[0]) == lines(taught, asked, tmp_path / "work")[0]


def test_what_is_done_is_not_done_again(taught, asked, tmp_path):
    work = tmp_path / "work"

    def killed(model, encoder, format, chunks, tell):
        bulk.answer_in_this_process(model, encoder, format, chunks[1:2], tell)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lines(taught, asked, work, killed)
    seen = []

    def counting(model, encoder, format, chunks, tell):
        seen.extend(path.name for path, _ in chunks)
        bulk.answer_in_this_process(model, encoder, format, chunks, tell)

    continued = lines(taught, asked, work, counting)
    assert seen == ["answers-000000.json", "answers-000002.json", "answers-000003.json"]
    assert continued == lines(taught, asked, tmp_path / "whole")
    assert lines(taught, asked, work, lambda *given: pytest.fail("nothing is left to do")) == continued


def test_a_folder_of_other_work_is_refused(taught, asked, tmp_path):
    lines(taught, asked, tmp_path / "work")
    for photos, format in ((asked[1:], "json"), (asked, "csv")):
        with pytest.raises(UserError, match="holds answers to other photos or of another model"):
            lines(taught, photos, tmp_path / "work", format=format)
    taught.rename("red", "scarlet")
    with pytest.raises(UserError, match="holds answers to other photos or of another model"):
        lines(taught, asked, tmp_path / "work")


@pytest.mark.filterwarnings("ignore")
def test_on_a_ray_cluster(taught, asked, tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    on_ray = lines(taught, asked, tmp_path / "ray", bulk.answer_on_ray(None))
    assert on_ray == lines(taught, asked, tmp_path / "here")


def test_a_damaged_chunk_is_answered_again_and_a_forged_mark_refused(taught, asked, tmp_path):
    work = tmp_path / "work"
    whole = lines(taught, asked, work)
    for spoil in (lambda content: content[:-20], lambda content: content.replace(b"red", b"rod"), lambda content: b""):
        chunk = work / "answers-000001.json"
        chunk.write_bytes(spoil(chunk.read_bytes()))
        assert lines(taught, asked, work) == whole
    for text in ("[" * 100_000, "{}", "\xff"):
        (work / "work.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(UserError, match="holds answers to other photos or of another model"):
            lines(taught, asked, work)
