"""Steps that are run at once."""

import pytest

from records.steps import Steps, at_once


def test_all_steps_are_run_and_their_result_is_returned() -> None:
    done = []

    def steps() -> Steps[str]:
        for number in range(3):
            yield number
            done.append(number)
        return "found"

    assert at_once(steps()) == "found"
    assert done == [0, 1, 2]


def test_an_error_of_a_step_passes_through() -> None:
    def steps() -> Steps[None]:
        yield 0
        raise ValueError("a step fails")

    with pytest.raises(ValueError, match="a step fails"):
        at_once(steps())
