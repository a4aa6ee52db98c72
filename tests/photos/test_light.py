import subprocess
import sys


def test_asking_does_not_load_pytorch(taught, tmp_path):
    """It would take longer than the answer; converted encoders are kept so that it is not needed."""
    taught.save(tmp_path / "m")
    photo = tmp_path / "taught" / "red" / "000.png"
    code = (
        "import sys; from pathlib import Path; from protoreplay import Classifier;"
        f"model = Classifier.load({str(tmp_path / 'm')!r});"
        f"print(next(model.predict([Path({str(photo)!r})])).label);"
        "print([name for name in ('torch', 'sklearn', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == ["red", "[]"]
