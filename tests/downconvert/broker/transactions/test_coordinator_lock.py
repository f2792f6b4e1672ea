"""Two threads at the coordinator of transactions, one of which is writing markers."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.broker.transactions.markers import Markers
from downconvert.protocol.errors import ErrorCode
from tests.downconvert.broker.transacting import NOW, Producing, committed, is_stable, state
from tests.downconvert.broker.writable import writable_broker

SECONDS = 60.0


@contextmanager
def ending(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, commits: bool
) -> Iterator[tuple[Broker, Producing, list[str], Future[ErrorCode], threading.Event]]:
    """A transaction whose markers are being written until the event is set."""
    written: list[str] = []
    has_begun, may_end = threading.Event(), threading.Event()
    write = Markers.write

    def slowly(markers: Markers, one: Any, *args: Any) -> Any:
        written.append(one.transactional_id)
        if one.transactional_id == "tx" and not has_begun.is_set():
            has_begun.set()
            assert may_end.wait(SECONDS)
        return write(markers, one, *args)

    with writable_broker(path, "t", partitions=2) as broker, ThreadPoolExecutor(1) as threads:
        producer = Producing(broker, "tx")
        assert producer.begin() is ErrorCode.NONE
        producer.write([b"a", b"b"])
        monkeypatch.setattr(Markers, "write", slowly)
        end = threads.submit(producer.end, commits=commits)
        assert has_begun.wait(SECONDS)
        try:
            yield broker, producer, written, end, may_end
        finally:
            may_end.set()


@pytest.mark.parametrize("commits", [True, False])
def test_markers_are_written_by_one_thread_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    with ending(tmp_path, monkeypatch, commits=commits) as (broker, producer, written, end, go):
        assert state(broker).transaction_state == ("PrepareCommit" if commits else "PrepareAbort")
        broker.transactions.complete_prepared(NOW)
        broker.transactions.abort_timed_out(NOW + 10_000)
        broker.transactions.expire(NOW + 10**9)
        assert written == ["tx"]
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        assert producer.end(commits=commits) is busy
        assert producer.end(commits=not commits) is ErrorCode.INVALID_TXN_STATE
        assert producer.add(("t", 1)) == [busy]
        assert producer.send(b"c") is not ErrorCode.NONE
        assert Producing(broker, "tx").begin() is busy
        assert not is_stable(broker)
        go.set()
        assert end.result(SECONDS) is ErrorCode.NONE
        assert is_stable(broker)
        records = [value for value in committed(broker) if value is not None]
        assert records == ([b"a", b"b"] if commits else [])
        assert producer.end(commits=commits) is ErrorCode.NONE, "a repeated request"
        assert written == ["tx"]
        assert producer.begin(goes_on=True) is ErrorCode.NONE


def test_another_producer_does_not_wait_for_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ending(tmp_path, monkeypatch, commits=True) as (broker, _, written, end, go):
        other = Producing(broker, "other")
        assert other.begin() is ErrorCode.NONE
        other.write([b"x"], ("t", 1))
        assert other.end() is ErrorCode.NONE
        assert (written, is_stable(broker, ("t", 1))) == (["tx", "other"], True)
        assert not end.done()
        go.set()
        assert end.result(SECONDS) is ErrorCode.NONE
