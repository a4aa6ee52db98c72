from protoreplay.core.columns import align_columns


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_in_no_blanks():
    assert align_columns([("name", "kind"), ("a", "of a kind"), ("b", "")]) == ["name  kind", "a     of a kind", "b"]


def test_numbers_stand_to_the_right_below_a_rule():
    rows = [("method", "avg", "final"), ("sgd", "9.5", "12.25")]
    assert align_columns(rows, words=1, rule=True) == ["method  avg  final", "------  ---  -----", "sgd     9.5  12.25"]


def test_nothing_is_cut_and_no_markup_is_read():
    assert align_columns([("[red]", "x" * 500)]) == ["[red]  " + "x" * 500]
    assert align_columns([]) == []
