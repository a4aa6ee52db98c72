import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protoreplay.photos.answers import best_first


@given(st.lists(st.floats(-3, 3, width=16), min_size=1, max_size=40), st.integers(1, 30))
def test_the_best_come_first_and_of_equal_ones_the_first(scores, count):
    expected = sorted(range(len(scores)), key=lambda k: (-scores[k], k))[:count]
    assert best_first(np.array(scores, np.float32), count).tolist() == expected
