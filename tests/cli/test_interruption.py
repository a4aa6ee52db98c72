from protoreplay.cli.interruption import CONTINUES, interrupted_line, on_interrupt


def test_only_what_continues_says_so():
    interrupted_line([])  # takes what a command in this process may have said before
    assert interrupted_line(["bench", "split-digits"]) == f"protoreplay: interrupted; {CONTINUES}"
    assert interrupted_line(["show", "m"]) == "protoreplay: interrupted"
    on_interrupt("m is as it was")
    assert interrupted_line(["learn", "m"]) == "protoreplay: interrupted; m is as it was"
