"""Child processes: what they tell, and how they end."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from records import CorruptRecordsError
from simulator.children import Child, Line, SimulationError, listen


def echo(line: Line, what: str) -> str:
    line.tell(f"{what} one")
    line.tell(line.hear())
    return f"{what} done"


def damaged(_: Line) -> None:
    raise CorruptRecordsError("unknown magic", 7)


def exits(_: Line) -> None:
    os._exit(3)


def killed(_: Line) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exhausted(_: Line) -> None:
    raise MemoryError


def sleeps(line: Line) -> None:
    line.tell("asleep")
    time.sleep(600)


def test_a_child_tells_hears_and_returns() -> None:
    with Child("echo", echo, "a") as child:
        told = listen([child], 60)
        assert told == ["a one"]
        child.say("two")
        while not child.done:
            told += listen([child], 60)
    assert told == ["a one", "two"]
    assert child.result == "a done"


def test_nothing_told_is_nothing_heard() -> None:
    with Child("sleeper", sleeps) as child:
        assert listen([child], 60) == ["asleep"]
        assert listen([child], 0.01) == []


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (damaged, "unknown magic, at byte 7"),
        (exits, r"the doomed process ended without a result \(exit code 3\)"),
        (killed, "the doomed process was killed: most likely the machine ran out of memory"),
        (exhausted, "a child process ran out of memory"),
    ],
)
def test_a_child_that_fails_is_an_error_in_words(work: Callable[[Line], None], words: str) -> None:
    with Child("doomed", work) as child, pytest.raises(SimulationError, match=words):
        listen([child], 60)


def test_a_child_does_not_outlive_its_block() -> None:
    with Child("sleeper", sleeps) as child:
        assert listen([child], 60) == ["asleep"]
        os.kill(child.process_id, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child.process_id, 0)


def test_ctrl_c_does_not_reach_a_child() -> None:
    with Child("echo", echo, "a") as child:
        assert listen([child], 60) == ["a one"]
        os.kill(child.process_id, signal.SIGINT)
        child.say("still here")
        assert listen([child], 60)[0] == "still here"
