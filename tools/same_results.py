"""Compare every `counts.csv` of another revision and of the working tree: did a change of the code change results?

python tools/same_results.py REVISION [FOLDER]

The revision is checked out into FOLDER (default: build/same_results) and its runs are done there, once; those of the
working tree are done again each time. It needs CIFAR-10 (`protoreplay data get cifar10`) and takes a quarter of an hour
on two cores. It ends with 1 if a file differs.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
GRIDS = {
    "split-digits": ["--methods", "all"],
    "permuted-digits": ["--methods", "all"],
    "split-cifar10": ["--methods", "nearest-mean,slda,vpr,ewc,icarl", "--set", "tasks=2"],
}


def run(source: Path, target: Path) -> None:
    """The runs of all grids with the package in `source`."""
    for protocol, options in GRIDS.items():
        command = [sys.executable, "-c", "from protoreplay.cli import main; main()", "bench", protocol, *options]
        command += ["--seeds", "2", "--jobs", "2", "--out", str(target / protocol)]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def differing(before: Path, after: Path) -> list[str]:
    """What is not the same; prints a line for each grid."""
    found = []
    for protocol in GRIDS:
        paths = sorted((before / protocol).rglob("counts.csv"))
        names = [path.relative_to(before).as_posix() for path in paths]
        changed = [name for name, path in zip(names, paths, strict=True) if _content(after / name) != path.read_bytes()]
        print(f"{protocol}: {len(paths)} runs, {len(paths) - len(changed)} with the same counts to the byte")
        found += changed
    return found


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def main() -> None:
    revision = sys.argv[1]
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build" / "same_results").absolute()
    old = folder / "source"
    if not old.exists():
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(old)], check=True)
    subprocess.run(["git", "checkout", "--quiet", revision], cwd=old, check=True)
    run(old / "src", folder / "before")
    shutil.rmtree(folder / "after", ignore_errors=True)
    run(ROOT / "src", folder / "after")
    if changed := differing(folder / "before", folder / "after"):
        sys.exit("\n".join(["these differ:", *changed]))


if __name__ == "__main__":
    main()
