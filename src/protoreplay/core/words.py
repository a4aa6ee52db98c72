"""Words for people: numbers with their nouns, and names of others that a terminal can show."""

import unicodedata

_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Signs that are not seen, and change the direction in which others are."""


def printable(text: str) -> str:
    """The text on one line, with everything escaped that is not seen but moves what is, and halves of characters.

    >>> print(printable("a\\x1b[2Jb\\n"))
    a\\x1b[2Jb\\n
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign.encode("unicode_escape").decode() if _moves(sign) else sign for sign in text)


def _moves(sign: str) -> bool:
    return sign in _TURNING or unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")


def counted(number: int, noun: str, many: str = "") -> str:
    """The number with its noun.

    Examples:
        >>> counted(1, "photo"), counted(2, "photo"), counted(0, "class", "classes")
        ('1 photo', '2 photos', '0 classes')
    """
    return f"{number} {noun if number == 1 else many or noun + 's'}"
