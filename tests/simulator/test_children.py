"""Child processes: what they send, and how they end."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from records import CorruptRecordsError
from simulator.children import Child, Parent, SimulationError, messages_of


def echo(parent: Parent, what: str) -> str:
    parent.send(f"{what} one")
    parent.send(parent.receive())
    return f"{what} done"


def damaged(_: Parent) -> None:
    raise CorruptRecordsError("unknown magic", 7)


def exits(_: Parent) -> None:
    os._exit(3)


def killed(_: Parent) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exhausted(_: Parent) -> None:
    raise MemoryError


def sleeps(parent: Parent) -> None:
    parent.send("asleep")
    time.sleep(600)


def test_a_child_sends_receives_and_returns() -> None:
    with Child("echo", echo, "a") as child:
        messages = messages_of([child], 60)
        assert messages == ["a one"]
        child.send("two")
        while not child.done:
            messages += messages_of([child], 60)
    assert messages == ["a one", "two"]
    assert child.result == "a done"


def test_without_a_message_nothing_is_received() -> None:
    with Child("sleeper", sleeps) as child:
        assert messages_of([child], 60) == ["asleep"]
        assert messages_of([child], 0.01) == []


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (damaged, "unknown magic, at byte 7"),
        (exits, r"the doomed process ended without a result \(exit code 3\)"),
        (killed, "the doomed process was killed: most likely the machine ran out of memory"),
        (exhausted, "a child process ran out of memory"),
    ],
)
def test_a_failing_child_is_an_error_in_words(work: Callable[[Parent], None], words: str) -> None:
    with Child("doomed", work) as child, pytest.raises(SimulationError, match=words):
        messages_of([child], 60)


def test_a_child_does_not_outlive_its_block() -> None:
    with Child("sleeper", sleeps) as child:
        assert messages_of([child], 60) == ["asleep"]
        os.kill(child.process_id, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child.process_id, 0)


def test_ctrl_c_does_not_reach_a_child() -> None:
    with Child("echo", echo, "a") as child:
        assert messages_of([child], 60) == ["a one"]
        os.kill(child.process_id, signal.SIGINT)
        child.send("still here")
        assert messages_of([child], 60)[0] == "still here"
