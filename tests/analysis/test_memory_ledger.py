from protoreplay import make_method, make_stream
from protoreplay.analysis.memory_ledger import measure_memory
from protoreplay.methods.registry import METHODS
from protoreplay.report.memory_figure import memory_figure
from protoreplay.streams import protocols


def test_the_papers_numbers_come_out_of_real_objects(small_cache):
    """The paper's table: 21.7e5 for VPR, of 21.3e5 weights, 10 images and 10 prototypes."""
    vpr, *regularisers = measure_memory(
        protocols.get_protocol("split-cifar10"), ["vpr-paper", "l2", "online-ewc", "si", "mas"]
    )
    assert {round(regulariser.paper / 1e5, 1) for regulariser in regularisers} == {32.6}
    assert vpr.paper == 2_126_500 + 10 * 3 * 32 * 32 + 10 * 2 * 500
    assert round(vpr.paper / 1e5, 1) == 21.7
    assert vpr.numbers > vpr.paper
    kept = {item.name: item.numbers for item in vpr.ledger}
    assert kept["prototypes"] == sum(range(2, 11)) * (2 * 500 + 2)


def test_it_is_the_ledger_of_a_trained_run():
    stream = make_stream("split-digits")
    for measured in measure_memory(stream.protocol, list(METHODS)):
        quick = {"epochs": 2} if "epochs" in METHODS.get(measured.method).method.Config.model_fields else {}
        method = make_method(measured.method, stream, **quick)
        for task in stream:
            method.learn(task)
        assert measured.ledger == method.ledger()
        assert measured.bytes == sum(item.bytes for item in method.ledger())


def test_growth_is_told_task_by_task_and_drawn():
    (paper, mean) = measure_memory(protocols.get_protocol("split-digits"), ["vpr-paper", "nearest-mean"])
    assert len(paper.growth) == len(mean.growth) == 9
    assert mean.growth == sorted(mean.growth)
    assert paper.growth[-1] == paper.bytes
    (axes,) = memory_figure([paper, mean]).axes
    drawn = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 9]
    assert [list(line) for line in drawn] == [paper.growth, mean.growth]
    assert {"vpr-paper", "nearest-mean"} <= {text.get_text() for text in axes.texts}
