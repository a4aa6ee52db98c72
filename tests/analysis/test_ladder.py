import csv
import itertools

import pytest

from protoreplay.analysis.ladder import LADDER, plan_ladder, rung_of
from protoreplay.core.errors import UserError
from protoreplay.experiments.grid import execute_grid
from protoreplay.report.ladder_page import (
    ladder_figure,
    ladder_in_words,
    ladder_table,
    measured_ladder,
    recorded_ladder,
    write_ladder_page,
)

QUICK = {"tasks": 2, "epochs": 1, "steps": 2, "filters": 10, "samples": 2, "dim": 8, "latent": 8}


@pytest.fixture(scope="module")
def climbed(tmp_path_factory):
    """Three seeds of every rung, with as little training as there can be."""
    root = tmp_path_factory.mktemp("ladder")
    planned = plan_ladder("split-digits", [0, 1, 2], QUICK)
    execute_grid([spec for one in planned for spec in one.specs], root)
    return measured_ladder(planned, root)


def test_the_rungs_lead_from_the_papers_form_to_the_closed_form():
    assert (LADDER[0].method, LADDER[-1].method) == ("vpr-paper", "vpr")
    names = [rung.name for rung in LADDER]
    assert len({*names}) == len(names)
    planned = plan_ladder("split-cifar10", [0], {})
    assert [one.rung for one in planned] == list(LADDER)


def test_a_rung_changes_few_settings_of_the_one_above():
    """Within one method, only those that it names: nothing comes along with another default."""
    planned = plan_ladder("split-cifar10", [0], {})
    for above, below in itertools.pairwise(planned):
        if above.rung.method == below.rung.method:
            first, second = (dict(one.specs[0].method_settings) for one in (above, below))
            changed = {key for key in first if first[key] != second[key]}
            assert changed <= {*above.rung.settings, *below.rung.settings}
            # How long a head is trained was chosen for each thing that is replayed.
            assert len(changed - {"steps", "lr"}) == 1, below.rung.name


def test_what_changes_nothing_on_a_protocol_is_left_out():
    names = [one.rung.name for one in plan_ladder("split-digits", [0], {})]
    assert "prototypes of augmented views" not in names  # the digits' preset has no views
    assert len(names) == len(LADDER) - 1


def test_every_rung_is_one_command():
    by_name = {rung.name: rung.command("split-cifar10") for rung in LADDER}
    assert by_name["one covariance shared by all classes"] == (
        "protoreplay bench split-cifar10 --methods vpr-linear --set body=dictionary --set replay=samples "
        "--set covariance=shared"
    )
    assert by_name["its closed form, without a step"] == "protoreplay bench split-cifar10 --methods vpr"


def test_settings_reach_the_rungs_that_have_them_and_do_not_set_them():
    planned = {one.rung.name: one.specs[0] for one in plan_ladder("split-digits", [4], {"steps": 7, "tasks": 3})}
    assert planned["one covariance shared by all classes"].method_settings.steps == 7
    assert planned["a patch dictionary as the body"].method_settings.steps == 0
    assert {(spec.stream_settings.tasks, spec.seed) for spec in planned.values()} == {(3, 4)}
    with pytest.raises(UserError, match="unknown setting 'step'"):
        plan_ladder("split-digits", [0], {"step": 7})


def test_the_table_holds_paired_differences_to_the_rung_above(climbed):
    rows = ladder_table(climbed).records
    assert rows[0]["avg_difference"] is None
    for (above, below), row in zip(itertools.pairwise(climbed), rows[1:], strict=True):
        values = [one.group.values["final"] for one in (below, above)]
        differences = [values[0][seed] - values[1][seed] for seed in (0, 1, 2)]
        assert row["final_difference"] == pytest.approx(sum(differences) / 3)
        assert row["final_low"] <= row["final_difference"] <= row["final_high"]


def test_recorded_groups_are_known_by_their_settings(climbed):
    groups = [one.group for one in climbed]
    assert [rung_of(group) for group in groups] == [one.rung for one in climbed]
    assert recorded_ladder(groups[::-1]) == climbed
    assert recorded_ladder([]) == []


def test_the_page_has_what_was_drawn(climbed, tmp_path):
    written = write_ladder_page(climbed, tmp_path)
    assert [path.name for path in written] == ["ladder.html", "ladder.png", "ladder.pdf", "ladder.csv"]
    page = written[0].read_text()
    assert page.count("<svg") == 2
    stored = list(csv.DictReader(written[3].read_text().splitlines()))
    assert [row["name"] for row in stored] == [one.rung.name for one in climbed]
    for one in climbed:
        assert one.rung.command("split-digits") in page
        assert f"{one.number}. {one.rung.name}" in ladder_in_words(climbed)


@pytest.mark.parametrize("narrow", [False, True])
def test_nothing_in_the_figure_is_cut_off(climbed, narrow):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = ladder_figure(climbed, narrow)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axes in figure.axes:
        for text in [*axes.texts, *axes.get_yticklabels(), axes.xaxis.label]:
            box = text.get_window_extent(canvas.get_renderer())
            assert min(box.x0, box.y0, figure.bbox.x1 - box.x1, figure.bbox.y1 - box.y1) >= 0, text.get_text()
