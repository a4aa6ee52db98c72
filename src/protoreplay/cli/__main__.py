"""`python -m protoreplay.cli`."""

from protoreplay.cli import main

if __name__ == "__main__":
    main()
