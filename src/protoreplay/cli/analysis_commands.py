"""The commands that analyse: ablations, kept prototypes, memory; heavy parts are imported when needed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from protoreplay.cli.options import (
    Address,
    CpusPerRun,
    Device,
    EngineName,
    EvalOn,
    GpusPerRun,
    Jobs,
    Keep,
    MethodNames,
    Overrides,
    ProtocolName,
    Redo,
    RunsFolder,
    Seeds,
    method_names,
    parse_pairs,
    parse_seeds,
    pick_engine,
    pick_evaluation,
    with_choice,
)
from protoreplay.cli.printing import end_with_failures, print_columns
from protoreplay.core.errors import known_name

analysis_app = typer.Typer()


@analysis_app.command("ablate")
def ablate_command(
    protocol: ProtocolName,
    methods: Annotated[str, typer.Option(metavar="A,B", help="vpr, vpr-paper, or both.")] = "vpr,vpr-paper",
    only: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Run only these ablations, by our name or the paper's: NoWeightEucli."),
    ] = None,
    seeds: Seeds = "3",
    overrides: Overrides = None,
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
    cpus_per_run: CpusPerRun = 1.0,
    gpus_per_run: GpusPerRun = 0.0,
    device: Device = "cpu",
    redo: Redo = False,
    keep: Keep = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for all runs, the page and its figures.",
            show_default="runs/ablations/PROTOCOL",
        ),
    ] = None,
) -> None:
    """Run VPR without each of its components; print paired differences and write a page. Resumes like bench."""
    from protoreplay.analysis.ablations import ABLATED_METHODS, plan_ablations
    from protoreplay.experiments.grid import RunsFailedError, execute_grid
    from protoreplay.experiments.grid_queue import default_runs_folder
    from protoreplay.experiments.run_progress import for_this_terminal
    from protoreplay.report import ablation_page as ablations
    from protoreplay.report.formats import table_as_text

    names = method_names(methods)
    for name in names:
        known_name("method", name, ABLATED_METHODS, " to ablate")
    chosen = only.split(",") if only else []
    planned = plan_ablations(protocol, names, parse_seeds(seeds, "test"), parse_pairs(overrides), device, chosen)
    does = pick_engine(engine, jobs, device, address, cpus_per_run, gpus_per_run)
    root, failed = out or default_runs_folder(protocol, "ablations"), None
    try:
        with for_this_terminal() as board:
            # Seeds outermost, so that what is finished early can be compared.
            specs = [spec for column in zip(*(one.specs for one in planned), strict=True) for spec in column]
            execute_grid(with_choice(specs, redo, keep), root, board, does)
    except RunsFailedError as error:
        failed = error
    found = ablations.measured_ablations(planned, root)
    for made in map(ablations.ablation_table, found.values()):
        print(table_as_text(made), end="\n\n")
    for path in ablations.write_ablation_page(found, root) if found else []:
        print(path)
    if failed:
        end_with_failures(failed)


@analysis_app.command("ladder")
def ladder_command(
    protocol: ProtocolName,
    seeds: Seeds = "3",
    overrides: Overrides = None,
    evaluation: EvalOn = "test",
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
    cpus_per_run: CpusPerRun = 1.0,
    gpus_per_run: GpusPerRun = 0.0,
    device: Device = "cpu",
    redo: Redo = False,
    keep: Keep = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for all runs, the page and its figure.",
            show_default="runs/ladder/PROTOCOL",
        ),
    ] = None,
) -> None:
    """Go from the paper's form of VPR to its closed form, one change at a time. Resumes like bench."""
    from protoreplay.analysis.ladder import plan_ladder
    from protoreplay.experiments.grid import RunsFailedError, execute_grid
    from protoreplay.experiments.grid_queue import default_runs_folder
    from protoreplay.experiments.run_progress import for_this_terminal
    from protoreplay.report.formats import table_as_text
    from protoreplay.report.ladder_page import ladder_table, measured_ladder, write_ladder_page

    chosen = pick_evaluation(evaluation)
    planned = plan_ladder(protocol, parse_seeds(seeds, chosen), parse_pairs(overrides), chosen, device)
    does = pick_engine(engine, jobs, device, address, cpus_per_run, gpus_per_run)
    root, failed = out or default_runs_folder(protocol, "ladder"), None
    try:
        with for_this_terminal() as board:
            # Seeds outermost, so that what is finished early can be compared.
            specs = [spec for column in zip(*(one.specs for one in planned), strict=True) for spec in column]
            execute_grid(with_choice(specs, redo, keep), root, board, does)
    except RunsFailedError as error:
        failed = error
    found = measured_ladder(planned, root)
    if found:
        print(table_as_text(ladder_table(found)), end="\n\n")
        for path in write_ladder_page(found, root):
            print(path)
    if failed:
        end_with_failures(failed)


@analysis_app.command("analyze")
def analyze_command(
    folder: RunsFolder,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the page, its figures and numbers.")
    ],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Method to analyze, if several kept their prototypes.",
            show_default="the only one that did",
        ),
    ] = None,
    encoder: Annotated[
        str, typer.Option(metavar="lite2|timm:NAME|FILE.onnx", help="Encoder that defines visual similarity.")
    ] = "lite2",
    images: Annotated[
        str, typer.Option(metavar="training|test", help="Images to map; the paper maps training images.")
    ] = "training",
) -> None:
    """Analyze runs made with `--keep-prototypes`: maps, motion, similarity, confidence, forgetting, confusion."""
    from protoreplay.analysis.kept_runs import find_kept_runs
    from protoreplay.report.analysis_page import write_analysis_page

    mapped: Any = known_name("--images", images, ["training", "test"])
    for path in write_analysis_page(find_kept_runs(folder, method), output, encoder, mapped):
        print(path)


@analysis_app.command("memory")
def memory_command(
    protocol: ProtocolName,
    methods: MethodNames = "all",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also plot it task by task (.png, .pdf or .svg)."),
    ] = None,
) -> None:
    """Print the memory that each method carries from task to task, measured on real objects."""
    from protoreplay.analysis.memory_ledger import measure_memory
    from protoreplay.streams import protocols

    if output:
        from protoreplay.report.figures import check_figure_ending

        check_figure_ending(output)
    everything = measure_memory(protocols.get_protocol(protocol), method_names(methods))
    if output:
        from protoreplay.report.figures import save_figure
        from protoreplay.report.memory_figure import memory_figure

        save_figure(memory_figure(everything), output)
    rows = [("method", "numbers", "bytes", "paper's count", "numbers by item")]
    for measured in everything:
        items = ", ".join(f"{item.name} {item.numbers:,}" for item in measured.ledger)
        paper = "" if measured.paper is None else f"{measured.paper / 1e5:.1f}e5"
        rows.append((measured.method, f"{measured.numbers:,}", f"{measured.bytes:,}", paper, items))
    print_columns(rows)
