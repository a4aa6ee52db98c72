import pytest

from protoreplay.core.errors import UserError, known_name


def test_a_known_name_passes_and_an_unknown_one_names_the_nearest_and_all():
    assert known_name("engine", "ray", ["local", "ray"]) == "ray"
    with pytest.raises(UserError) as error:
        known_name("engine", "rey", ["ray", "local"], " of this machine")
    assert str(error.value) == "unknown engine 'rey' of this machine (did you mean ray?); known: local, ray"
