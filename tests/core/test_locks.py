import threading

from protoreplay.core.locks import held_lock


def test_a_second_holder_says_that_it_waits_and_then_holds(tmp_path):
    said, waiting, holders = [], threading.Event(), []

    def say(line):
        said.append(line)
        waiting.set()

    def second():
        with held_lock(tmp_path / "lock", say, "somebody is at it"):
            holders.append("second")

    with held_lock(tmp_path / "lock", say, "nobody is at it"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(60)
        holders.append("first")
    thread.join(60)
    assert (said, holders) == (["somebody is at it: waiting for it"], ["first", "second"])


def test_nobody_else_may_open_a_lock(tmp_path):
    with held_lock(tmp_path / "lock", print, "somebody is at it"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
