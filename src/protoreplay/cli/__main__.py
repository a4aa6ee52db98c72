"""`python -m protoreplay.cli`."""

from protoreplay.cli import main

main()
