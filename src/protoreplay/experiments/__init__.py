"""One run, a grid of runs, and the folder a run lives in."""
