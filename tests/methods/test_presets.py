import pytest

from protoreplay.core.errors import UserError
from protoreplay.encoders.dictionary import DictionarySettings
from protoreplay.methods import presets
from protoreplay.methods.presets import PresetEntry, TuningRecord
from protoreplay.methods.registry import METHODS, configure
from protoreplay.streams.protocols import PROTOCOLS, get_protocol


@pytest.mark.parametrize("entry", presets.preset_entries(), ids=lambda entry: "-".join(filter(None, entry.key)))
def test_every_stored_preset_is_valid(entry):
    """Its method has such settings, with such values, and it is for at least one protocol, where it is in force."""
    assert entry.method in METHODS
    METHODS.get(entry.method).method.Config.parse(entry.settings, entry.method)
    own = [protocol for protocol in PROTOCOLS.values() if entry.is_for(entry.method, entry.preset, protocol)]
    assert own
    for protocol in own:
        named = entry.method if entry.preset == "ours" else f"{entry.method}@{entry.preset}"
        config = configure(named, protocol, {})
        assert config.model_dump().items() >= entry.settings.items()
    assert isinstance(entry.source, TuningRecord) == (entry.preset == "tuned")
    if isinstance(entry.source, TuningRecord):
        assert entry.source.command.startswith(f"protoreplay tune {entry.protocol} --method {entry.method}")
        words = entry.source.command.split()
        assert words[words.index("--tasks") + 1] == str(entry.source.tasks)
        assert words[words.index("--seeds") + 1] == str(entry.source.seeds)
        for key, value in entry.settings.items():
            assert value in [*entry.source.tried.get(key, []), entry.source.fixed.get(key)]


def test_only_what_was_published_is_called_so():
    """The paper's own method and those it was not compared with have no published settings."""
    called = {entry.method for entry in presets.preset_entries() if entry.preset == "published"}
    assert called == {"sgd", "l2", "ewc", "online-ewc", "si", "mas"}


def entry(**fields):
    return PresetEntry(**{"preset": "published", "method": "sgd", "settings": {}, "source": "a test", **fields})


def test_the_most_specific_entry_says_it(monkeypatch):
    stored = [
        entry(kind="incremental class", settings={"lr": 1.0}),
        entry(dataset="digits", settings={"lr": 2.0}),
        entry(dataset="digits", kind="incremental domain", settings={"lr": 3.0}),
        entry(protocol="split-digits", settings={"lr": 4.0}),
    ]
    expected = {"split-digits": 4.0, "permuted-digits": 3.0, "split:digits": 2.0, "split-cifar10": 1.0}
    for order in (stored, stored[::-1]):
        monkeypatch.setattr(presets, "preset_entries", lambda order=order: tuple(order))
        assert {name: configure("sgd", get_protocol(name), {}).lr for name in expected} == expected
        assert configure("sgd", get_protocol("permuted-mnist"), {}).lr == 1e-2
        assert configure("l2", get_protocol("split-digits"), {}).lr == 1e-3


def test_presets_of_vpr_go_with_what_the_images_are():
    pixels = configure("vpr", get_protocol("permuted:digits"), {})
    assert (pixels.body, pixels.views) == ("pixels", 1)
    assert configure("vpr", get_protocol("split:digits"), {}).patch == 4
    assert configure("vpr", get_protocol("fscil-mini-imagenet"), {}).latent == 900
    assert configure("vpr", get_protocol("split-cifar10"), {}) == METHODS.get("vpr").method.Config()


def test_what_is_written_is_read_again_and_an_entry_for_the_same_is_replaced():
    stored = list(presets.preset_entries())
    assert presets.parse_presets(presets.dump_presets(stored)) == sorted(stored, key=lambda one: one.key)
    other = entry(protocol="split-cifar10", settings={"lr": 7.0})
    written = presets.parse_presets(presets.dump_presets(stored, other))
    assert len(written) == len(stored)
    assert other in written


def test_a_file_that_says_something_twice_or_for_no_protocol_is_refused():
    text = presets.dump_presets([entry(kind="incremental class")])
    twice = "[" + ",".join([text.strip()[1:-1]] * 2) + "]"
    with pytest.raises(ValueError, match="more than one entry"):
        presets.parse_presets(twice)
    for fields in ({}, {"protocol": "split-digits", "dataset": "digits"}):
        with pytest.raises(ValueError, match="for one protocol, or for those of a dataset"):
            entry(**fields)
    with pytest.raises(ValueError, match="preset"):
        entry(preset="best", kind="incremental class")


def test_a_preset_that_there_is_not_is_said_with_what_to_do():
    with pytest.raises(UserError, match="unknown preset 'best' in sgd@best"):
        presets.split_name("sgd@best")
    with pytest.raises(UserError, match="no tuned settings of joint for split-digits: find them with"):
        configure("joint@tuned", get_protocol("split-digits"), {})


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ewc", ("ewc", "published")),
        ("ewc@tuned", ("ewc", "tuned")),
        ("a@b/mine.py:Mine", ("a@b/mine.py:Mine", "published")),
        ("a@b/mine.py:Mine@tuned", ("a@b/mine.py:Mine", "tuned")),
    ],
)
def test_a_preset_stands_behind_the_last_at(name, parts):
    assert presets.split_name(name) == parts


def test_the_last_rungs_of_the_ladder_stand_on_one_dictionary():
    for name in ("split-cifar10", "split-mini-imagenet", "split-digits"):
        made = [dict(configure(method, get_protocol(name), {})) for method in ("vpr", "vpr-linear")]
        assert len({tuple(one[key] for key in DictionarySettings.model_fields) for one in made}) == 1
