"""What Ctrl-C means for the command that is running, said truthfully."""

CONTINUES = "the same command continues"
STARTS_OVER = "nothing was changed, and the same command starts over"

_WITH_RUN_FOLDERS = {"run", "bench", "tune", "ablate", "ladder"}
_said: list[str] = []


def on_interrupt(text: str) -> None:
    """From here on, this is true of the command should it be interrupted; an empty text where nothing can be said."""
    _said[:] = [text]


def interrupted_line(words: list[str]) -> str:
    """The line for a command that was interrupted, given as its words."""
    default = CONTINUES if words[:1] and words[0] in _WITH_RUN_FOLDERS else ""
    text = _said.pop() if _said else default
    return "protoreplay: interrupted" + (f"; {text}" if text else "")
