import pytest

from protoreplay.analysis.kept_runs import find_kept_runs
from protoreplay.core.errors import UserError
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.spec import resolve_grid

QUICK = {"tasks": 1, "filters": 20, "latent": 12, "epochs": 1}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    root = tmp_path_factory.mktemp("kept")
    execute_grid(resolve_grid("split-digits", ["vpr", "sgd"], [1, 0], QUICK, keep=True), root)
    return root


def test_the_only_method_that_kept_prototypes_need_not_be_named(kept):
    runs = find_kept_runs(kept)
    assert [(run.seed, run.config.method.name) for run in runs] == [(0, "vpr"), (1, "vpr")]
    assert [run.path for run in runs] == [run.path for run in find_kept_runs(kept, "vpr")]
    assert len(runs[0].snapshots) == len(runs[0].stream()) == 1


def test_of_several_one_is_to_be_named(kept, tmp_path):
    execute_grid(resolve_grid("split-digits", ["vpr", "vpr-paper"], [0], QUICK, keep=True), tmp_path)
    with pytest.raises(UserError, match="has prototypes of vpr, vpr-paper: choose one with --method"):
        find_kept_runs(tmp_path)
    assert find_kept_runs(tmp_path, "vpr-paper")[0].config.method.name == "vpr-paper"
    with pytest.raises(UserError, match=r"unknown method 'sgd' among the runs of .* known: vpr$"):
        find_kept_runs(kept, "sgd")
