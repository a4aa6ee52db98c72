"""Numbers with their nouns, as people write them."""


def counted(number: int, noun: str, many: str = "") -> str:
    """The number with its noun.

    Examples:
        >>> counted(1, "photo"), counted(2, "photo"), counted(0, "class", "classes")
        ('1 photo', '2 photos', '0 classes')
    """
    return f"{number} {noun if number == 1 else many or noun + 's'}"
