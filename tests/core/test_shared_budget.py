import threading

import pytest

from protoreplay.core.shared_budget import SharedBudget


def test_who_wants_more_than_is_free_waits_for_others():
    budget = SharedBudget(10)
    with budget.held(7):
        with pytest.raises(TimeoutError), budget.held(4, 0.01):
            pass
        with budget.held(3, 0.01):
            pass
    with budget.held(10, 0.01):
        pass


def test_who_wants_more_than_all_gets_all_alone():
    budget = SharedBudget(10)
    with budget.held(10**9), pytest.raises(TimeoutError):
        budget.take(1, 0.01)
    assert budget.take(10**9, 1.0) == 10


def test_a_large_part_is_not_passed_by_small_ones():
    budget, order = SharedBudget(10), []
    small = budget.take(1)

    def large():
        with budget.held(10):
            order.append("large")

    waiting = threading.Thread(target=large)
    waiting.start()
    while not budget._turn.locked():
        pass
    with pytest.raises(TimeoutError):
        budget.take(1, 0.01)
    budget.give_back(small)
    waiting.join(60)
    with budget.held(1):
        order.append("small")
    assert order == ["large", "small"]
