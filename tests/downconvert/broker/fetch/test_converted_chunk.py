"""The turns of a conversion: one thread has the turn, and wakes all that asked meanwhile."""

from collections.abc import Callable
from threading import Lock
from unittest.mock import create_autospec

import pytest

from downconvert.broker.fetch import converted_chunk
from downconvert.broker.fetch.converted_chunk import Converting
from downconvert.serving.buffered_send import BufferedConversion
from records import BatchHeader, MemoryRecords
from tests.downconvert.storage.logs import batch


class Interrupted:
    """A lock that calls a function once, before it is taken."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.meanwhile: Callable[[], object] | None = None

    def __enter__(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def first() -> BatchHeader:
    return next(MemoryRecords(batch(0)).batches())


def conversion() -> Converting:
    return Converting(create_autospec(BufferedConversion), first())


def test_a_waiting_thread_is_woken_once_at_the_end_of_the_turn() -> None:
    """The end of a turn wakes those that asked during it, and not those of earlier turns."""
    converting, woken = conversion(), list[str]()
    assert converting.begin_turn(lambda: woken.append("owner"))
    assert not converting.begin_turn(lambda: woken.append("a"))
    assert not converting.begin_turn(lambda: woken.append("b"))
    assert woken == []
    converting.end_turn()
    assert woken == ["a", "b"]
    assert converting.begin_turn(lambda: woken.append("owner"))
    converting.end_turn()
    assert woken == ["a", "b"]


def test_a_woken_thread_can_have_the_next_turn() -> None:
    """A thread is woken when the turn is free."""
    converting, has_turn = conversion(), list[bool]()
    assert converting.begin_turn(lambda: None)
    converting.begin_turn(lambda: has_turn.append(converting.begin_turn(lambda: None)))
    converting.end_turn()
    assert has_turn == [True]


def test_a_thread_that_asks_while_the_turn_ends_is_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No thread that was refused a turn is left asleep."""
    lock, woken = Interrupted(), list[str]()
    monkeypatch.setattr(converted_chunk, "Lock", lambda: lock)
    converting = conversion()
    assert converting.begin_turn(lambda: None)
    refused: list[bool] = []
    lock.meanwhile = lambda: refused.append(not converting.begin_turn(lambda: woken.append("a")))
    converting.end_turn()
    assert refused == [True]
    assert woken == ["a"]
