import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from protoreplay.encoders.registry import ENCODERS
from protoreplay.methods.registry import METHODS
from protoreplay.streams.protocols import PROTOCOLS

BOUND = 300
"""Seconds after which a process counts as stuck, however slow the machine is."""
QUICK = ["--set", "tasks=3", "--set", "epochs=2"]


def program(*words, **options):
    """A process of its own that heeds Ctrl-C, which children of a background job are started without."""
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from protoreplay.cli import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], **options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["run", "split-digits", "--set", "ridge=-1"],
            "vpr: ridge=-1: input should be greater than or equal to 0.0001",
        ),
        (["run", "split-digits", "--set", "ridge=warm"], "vpr: ridge=warm: input should be a valid number"),
        (["run", "split-digits", "--set", "ridge=nan"], "vpr: ridge=nan: input should be"),
        (
            ["run", "split-digits", "--set", "rigde=1"],
            "unknown setting 'rigde' of split-digits with vpr (did you mean ridge?)",
        ),
        (["run", "split-digits", "--set", "tau"], "--set tau: write KEY=VALUE"),
        (
            ["run", "split-digits", "--method", "sgd", "--set", "encoder=vgg"],
            "sgd: encoder=vgg: unknown encoder 'vgg' to train; known: conv-small, conv5, conv5-bn, lenet, lenet-bn",
        ),
        (["run", "split-digits", "--set", "first_shots=x"], "as an integer, or input should be 'same' or 'all'"),
        (["run", "split-digits", "--method", "vrp"], "unknown method 'vrp' (did you mean vpr?); known: "),
        (
            ["run", "split-digit"],
            "unknown protocol 'split-digit' (did you mean split-digits?); known: blurred-digits, ",
        ),
        (["run", "split-digits", "--seed", "-1"], "seed -1: seeds are 0 or above"),
        (["run", "split-digits", "--seed", "one"], "Invalid value for '--seed': Input should be a valid integer"),
        (["run", "split-digits", "--eval", "train"], "unknown --eval 'train'; known: test, validation"),
        (["run", "split-digits", "--set", "shots=500"], "fewer than the 500 shots requested"),
        (["run"], "Missing argument"),
        (["run", "split-digits", "--sed", "1"], "No such option: --sed"),
        (["rum"], "No such command 'rum'"),
        (["bench", "split-digits", "--out", "new", "--methods", "sgd,vrp"], "unknown method 'vrp'"),
        (["bench", "split-digits", "--out", "new", "--seeds", "0"], "--seeds 0: write how many (5), a range (100-104)"),
        (["ablate", "split-digits", "--out", "new", "--seeds", "4-2"], "--seeds 4-2: write how many (5), a range"),
        (["ladder", "split-digits", "--out", "new", "--seeds", "1,"], "--seeds 1,: write how many (5), a range"),
        (["bench", "split-digits", "--out", "new", "--seeds", "1000000000"], "at most 100,000 seeds in one grid"),
        (["bench", "split-digits", "--out", "new", "--methods", "sgd", "--set", "tau=1"], "unknown setting 'tau'"),
        (["ablate", "split-digits", "--methods", "vrp"], "unknown method 'vrp' to ablate (did you mean vpr?)"),
        (["bench", "split-digits", "--out", "new", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["bench", "split-digits", "--out", "new", "--vary", "tau"], "--vary tau: write KEY=A,B"),
        (["bench", "split-digits", "--out", "new", "--vary", "tau=1,"], "--vary tau=1,: write KEY=A,B"),
        (["bench", "split-digits", "--out", "new", "--engine", "slurm"], "unknown engine 'slurm'; known: local, ray"),
        (
            ["bench", "split-digits", "--out", "new", "--address", "auto"],
            "--address, --cpus-per-run and --gpus-per-run",
        ),
        (["bench", "split-digits", "--out", "new", "--log", "wandb"], "unknown log 'wandb'; known: tensorboard"),
        (["run", "split-digits", "--device", "tpu"], "unknown device 'tpu'"),
        (["table", "nowhere"], "nowhere is not a folder"),
        (["table", "."], ". has no finished runs (0 unfinished)"),
        (["table", ".", "--format", "xml"], "unknown format 'xml'; known: csv, json, latex, md, text"),
        (["table", ".", "--compare", "a,b", "--claims"], "--compare, --per-class and --claims exclude each other"),
        (["report", "nowhere"], "nowhere is not a folder"),
        (["protocols", "show", "split-digits", "-o", "x.doc"], "x.doc: the name of a figure must end in"),
        (["run", "split:nowhere"], "nowhere is not a folder"),
        (["methods", "show", "vrp"], "unknown method 'vrp'"),
        (["protocols", "show", "digits"], "unknown protocol 'digits'"),
    ],
)
def test_a_mistake_is_one_line_exit_2_nothing_written(protoreplay, tmp_path, words, message):
    code, out, err = protoreplay(*words)
    assert code == 2
    assert out == ""
    assert err.startswith("protoreplay: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_run_is_refused_untouched(protoreplay, tmp_path):
    assert protoreplay("run", "split-digits", "--method", "sgd", *QUICK, "--out", "here")[0] == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, _, err = protoreplay("run", "split-digits", "--method", "joint", *QUICK, "--out", "here")
    assert code == 2
    assert err == "protoreplay: here holds a run with method.name=sgd, not joint: choose another --out\n"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_place_where_nothing_can_be_written_is_one_line(protoreplay, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = protoreplay("run", "split-digits", "--method", "sgd", *QUICK, "--out", "file/run")
    assert code == 2
    assert err.count("\n") == 1
    assert "file" in err


def test_run_prints_a_summary_and_logs_plain_lines(protoreplay, tmp_path):
    code, out, err = protoreplay("run", "split-digits", "--method", "sgd", *QUICK)
    assert code == 0
    assert out.startswith("sgd,epochs=2,tasks=3 on split-digits, seed 0: avg ")
    assert (tmp_path / "runs/split-digits/sgd,epochs=2,tasks=3/seed-0/counts.csv").exists()
    assert [line.split(":")[1].split()[1] for line in err.splitlines()] == ["1/3", "2/3", "3/3"]
    assert "\x1b" not in err


def test_bench_then_every_format_of_the_table(protoreplay):
    arguments = ["bench", "split-digits", "--methods", "sgd,nearest-mean", "--seeds", "2", *QUICK, "--out", "b"]
    code, text, _ = protoreplay(*arguments)
    assert code == 0
    assert text.startswith("method        seeds ")
    code, again, err = protoreplay(*arguments)
    assert (code, again, err) == (0, text, "")
    code, out, _ = protoreplay("table", "b", "--format", "json")
    rows = json.loads(out)
    assert [row["method"] for row in rows] == ["nearest-mean", "sgd"]
    needed = {"method", "seeds", "avg", "avg_std", "final", "final_std", "forgetting"}
    needed |= {"seconds", "kept_numbers", "kept_bytes"}
    assert all(needed <= row.keys() for row in rows)
    assert all(row["seeds"] == 2 and 0 <= row["final"] <= row["avg"] <= 100 for row in rows)
    code, out, _ = protoreplay("table", "b", "--format", "csv")
    assert out.splitlines()[0] == ",".join(rows[0])
    assert len(out.splitlines()) == 3
    code, out, _ = protoreplay("table", "b", "--format", "md")
    lines = out.splitlines()
    assert lines[1].startswith("| --- | ---: |")
    assert {line.count("|") for line in lines[:4]} == {lines[0].count("|")}
    assert lines[4:] == ["", lines[-1]]
    code, out, _ = protoreplay(
        "table", "b", "--format", "latex", "--columns", "avg,backward_transfer", "--spread", "ci"
    )
    assert out.splitlines()[3] == r"method & seeds & avg \% & backward transfer \\"
    code, out, _ = protoreplay("table", "b", "--compare", "nearest-mean,sgd", "--format", "json")
    assert [record["metric"] for record in json.loads(out)] == ["avg", "final", "forgetting"]
    code, out, _ = protoreplay("table", "b", "--claims", "--format", "json")
    assert {record["sign"] for record in json.loads(out)} == {"not measured"}
    code, out, _ = protoreplay("table", "b", "b", "--claims")
    assert out.startswith("The claim that VPR has the highest average accuracy of all compared methods is not measured")
    code, _, err = protoreplay("table", "b", "--against", "sdg")
    assert (code, err.splitlines()[-1]) == (
        2,
        "protoreplay: unknown method 'sdg' in this folder (did you mean sgd?); known: nearest-mean, sgd",
    )


def test_bench_shares_its_default_folder_with_run(protoreplay, tmp_path):
    words = ["--set", "tasks=2", "--set", "features=pixels"]
    assert protoreplay("run", "split-digits", "--method", "nearest-mean", *words)[0] == 0
    code, out, err = protoreplay("bench", "split-digits", "--methods", "nearest-mean", "--seeds", "2", *words)
    assert code == 0
    assert err.startswith("2 runs, 1 of them finished before")
    assert (protoreplay("table", "runs/split-digits")[:2]) == (0, out)
    assert len(list((tmp_path / "runs/split-digits").rglob("counts.csv"))) == 2


def test_ablate_has_a_folder_of_its_own(protoreplay, tmp_path):
    words = ["--methods", "vpr", "--seeds", "1", "--set", "tasks=1"]
    code, out, _ = protoreplay("ablate", "permuted-digits", *words)
    assert code == 0
    assert all((tmp_path / line).is_file() for line in out.rpartition("\n\n")[2].split())
    assert list((tmp_path / "runs").iterdir()) == [tmp_path / "runs/ablations"]


def test_a_ladder_is_continued_where_it_was_stopped(protoreplay, tmp_path):
    words = ["--seeds", "1", "--eval", "validation"]
    words += [word for pair in ("tasks=1", "epochs=1", "steps=1", "samples=2") for word in ("--set", pair)]
    code, out, _ = protoreplay("ladder", "split-digits", *words)
    assert code == 0
    assert all((tmp_path / line).is_file() for line in out.rpartition("\n\n")[2].split())
    assert list((tmp_path / "runs").iterdir()) == [tmp_path / "runs/ladder"]
    runs = list((tmp_path / "runs").rglob("counts.csv"))
    assert {path.parent.name for path in runs} == {"seed-1000"}
    runs[0].unlink()
    assert protoreplay("ladder", "split-digits", *words)[:2] == (0, out)


def test_analyze_takes_the_only_method_that_kept_prototypes(protoreplay):
    few = ["--set", "tasks=1", "--seeds", "1", "--keep-prototypes", "--out", "kept"]
    # An encoder that is not there is looked for when the runs are found.
    analyze = ["analyze", "kept", "-o", "inside", "--encoder", "absent.onnx"]
    found = (2, "", "protoreplay: absent.onnx: No such file or directory: give the encoder's file with --encoder\n")
    assert (
        protoreplay("bench", "split-digits", "--methods", "vpr,sgd", *few, "--set", "filters=20", "--set", "epochs=1")[
            0
        ]
        == 0
    )
    assert protoreplay(*analyze) == found
    assert protoreplay("bench", "split-digits", "--methods", "vpr-paper", *few, "--set", "epochs=1")[0] == 0
    code, _, err = protoreplay(*analyze)
    assert (code, err) == (2, "protoreplay: kept has prototypes of vpr, vpr-paper: choose one with --method\n")
    assert protoreplay(*analyze, "--method", "vpr-paper") == found


def test_report_writes_the_page_and_the_figures_it_names(protoreplay, tmp_path):
    protoreplay("bench", "split-digits", "--methods", "nearest-mean", "--seeds", "1", *QUICK[:2], "--out", "b")
    code, out, _ = protoreplay("report", "b", "-o", "new/page.html", "--figures", "new/figures")
    assert code == 0
    assert out.splitlines()[0] == "new/page.html"
    assert len(out.splitlines()) == 19
    assert all((tmp_path / line).stat().st_size > 1000 for line in out.splitlines())
    code, _, err = protoreplay("report", "b", "-o", "other.html", "--against", "sgd")
    assert code == 2
    assert "unknown method 'sgd' in this folder" in err
    assert not (tmp_path / "other.html").exists()


def test_validation_uses_seeds_that_are_never_reported(protoreplay, tmp_path):
    words = ["bench", "split-digits", "--methods", "nearest-mean", "--seeds", "2", "--eval", "validation", "--out", "v"]
    assert protoreplay(*words)[0] == 0
    folders = sorted(path.parent.name for path in tmp_path.rglob("counts.csv"))
    assert folders == ["seed-1000", "seed-1001"]


def test_lists_and_settings(protoreplay, monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOREPLAY_DATA", str(tmp_path / "empty"))
    code, out, _ = protoreplay("methods")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(METHODS)
    code, out, _ = protoreplay("protocols")
    assert [line.split()[0] for line in out.splitlines()] == ["name", *PROTOCOLS, "split:FOLDER", "permuted:FOLDER"]
    assert "cifar10, not here: protoreplay data get cifar10" in out
    code, out, _ = protoreplay("encoders", "--quick")
    rows = [line.split() for line in out.splitlines() if line]
    frozen = ["lite0", "lite1", "lite2", "timm:NAME", "FILE.onnx"]
    others = [name for name, entry in ENCODERS.items() if entry.kind != "pretrained"]
    assert [row[0] for row in rows] == ["for", *frozen, "for", *others, "FILE.py:NAME"]
    assert ["lenet", "trained", "the", "paper's", "network", "for", "CIFAR-10"] in rows
    code, out, _ = protoreplay("methods", "show", "vpr")
    assert "  ridge=" in out
    assert "Latent dimension" in out
    code, out, _ = protoreplay("protocols", "show", "permuted-digits")
    assert "first_shots=all" in out
    assert "encoder=mlp-small" in out


@pytest.mark.parametrize("protocol", ["permuted-digits", "split-cifar10", "permuted-mnist", "fscil-mini-imagenet"])
def test_a_picture_of_the_task_stream(protoreplay, small_cache, tmp_path, protocol):
    assert protoreplay("protocols", "show", protocol, "--seed", "1", "-o", "stream.png")[0] == 0
    with Image.open(tmp_path / "stream.png") as picture:
        assert picture.width > 1000
        assert np.asarray(picture.convert("L")).std() > 20


def test_data_that_is_not_there_is_one_line_with_the_remedy(protoreplay, monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOREPLAY_DATA", str(tmp_path / "empty"))
    code, _, err = protoreplay("run", "split-cifar10")
    assert code == 2
    assert err == "protoreplay: cifar10 is not on this machine: get it with `protoreplay data get cifar10`\n"
    assert list(tmp_path.iterdir()) == []


def test_version(protoreplay):
    assert protoreplay("--version")[:2] == (0, "protoreplay 0.1.0\n")


@pytest.mark.parametrize("width", [80, 120])
def test_help_is_grouped_by_door(protoreplay, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = protoreplay("--help")
    assert code == 0
    assert max(map(len, out.splitlines())) <= width
    panels = re.split(r"^╭─ (\w+) ─+╮$", out, flags=re.MULTILINE)
    commands = {name: re.findall(r"^│ (\w+) ", body, re.MULTILINE) for name, body in zip(panels[1::2], panels[2::2])}
    assert list(commands) == ["Options", "Research", "Photos", "Data"]
    assert commands["Research"][:3] == ["run", "bench", "tune"]
    assert {"table", "report", "ablate", "methods", "protocols"} <= {*commands["Research"]}
    assert commands["Photos"][0] == "learn"
    assert commands["Photos"][-1] == "serve"
    assert {"undo", "redo", "unite", "explain", "encoders"} <= {*commands["Photos"]}
    assert commands["Data"] == ["data"]


@pytest.mark.parametrize("words", [["run"], ["bench"], ["tune"], ["ablate"], ["data"], ["protocols", "show"]])
def test_help_of_a_command_is_not_cut(protoreplay, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = protoreplay(*words, "--help")
    assert code == 0
    assert "…" not in out


def test_control_c_stops_at_once_and_the_same_command_continues(tmp_path):
    settings = ["--method", "vpr-paper", "--set", "tasks=6", "--set", "epochs=8"]
    words = ["run", "split-digits", "--out", tmp_path / "run", *settings]
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    whole = program("run", "split-digits", "--out", tmp_path / "whole", *settings, **quiet)
    process = program(*words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + BOUND
    while not (tmp_path / "run" / "counts.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "protoreplay: interrupted; the same command continues"
    assert "Traceback" not in err
    process = program(*words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 0
    assert "continues after task" in err
    assert whole.wait(BOUND) == 0
    assert (tmp_path / "run/counts.csv").read_bytes() == (tmp_path / "whole/counts.csv").read_bytes()


HEAVY = ("torch", "numpy", "scipy", "sklearn", "matplotlib", "onnxruntime", "ray")


@pytest.mark.parametrize("words", [["--help"], ["bench", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(words):
    code = (
        f"import sys; sys.argv = ['protoreplay', *{words}]\n"
        "from protoreplay import cli\n"
        "try: cli.main()\n"
        f"finally: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, check=True, capture_output=True, text=True, timeout=300
    )
    assert done.stderr == "[]\n"


def test_the_shell_can_complete_commands():
    asked = {"_PROTOREPLAY_COMPLETE": "complete_bash", "COMP_WORDS": "protoreplay pre", "COMP_CWORD": "1"}
    process = program(env={**os.environ, **asked}, stdout=subprocess.PIPE, text=True)
    assert process.communicate(timeout=BOUND)[0].split() == ["predict"]
