import pytest

from tests.report.fakes import fake_run


@pytest.fixture
def runs(tmp_path):
    """Two methods over three seeds."""
    root = tmp_path / "runs"
    for seed, shift in enumerate((-10, 0, 10)):
        fake_run(root / f"good/{seed}", "good", seed, [90 + shift, 80 + shift])
        fake_run(root / f"bad/{seed}", "bad", seed, [50 + shift + seed, 30 + shift + seed])
    return root
