"""A send writes as much as its channel and its budget allow, and holds nothing afterwards."""

import socket
import tracemalloc
from pathlib import Path

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, LazyRecodedRecords, eager
from records import Codec, FileRecords, MemoryRecords, Record, build
from records.units import KiB, MiB
from tests.python_calls import python_calls

from .channels import Everything, sent


def log_of(batches: int, codec: Codec = Codec.NONE) -> MemoryRecords:
    """About 100 KB for each batch."""
    parts = (
        build([Record(100 * n + i, 0, value=bytes([i]) * 1000) for i in range(100)], magic=2,
              codec=codec)
        for n in range(batches)
    )  # fmt: skip
    return MemoryRecords(b"".join(parts))


def test_a_closed_socket_is_an_error_and_takes_nothing() -> None:
    """Its descriptor is not a number that another file could have."""
    send = LazyDownConvertRecords(log_of(3), 1).to_send()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.close()
    theirs.close()
    for _ in range(2):
        with pytest.raises(OSError, match="descriptor"):
            send.write_to(ours)
        assert send.remaining == send.size


def test_a_large_budget_is_used_up_by_one_call() -> None:
    """Only chunks that make nothing are limited in number."""
    send, channel = LazyDownConvertRecords(log_of(40), 1).to_send(), Everything()
    assert send.size > 3 * MiB
    assert send.write_to(channel, 2 * send.size) == send.size
    assert send.completed


def test_only_the_first_chunk_to_a_socket_is_written_alone(tmp_path: Path) -> None:
    """Each chunk would cost a call of the kernel, and more than ten of Python."""
    (tmp_path / "log").write_bytes(eager(log_of(10), 2))
    ours, theirs = socket.socketpair()
    with ours, theirs, FileRecords.open(tmp_path / "log") as records:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MiB)
        ours.setblocking(False)
        send = LazyDownConvertRecords(records, 1).to_send()
        chunk_size = ConversionPolicy().chunk_size
        written: list[int] = []
        calls = python_calls(lambda: written.append(send.write_to(ours, MiB)))
        assert written[0] >= 8 * chunk_size
        assert calls < 2 * written[0] // chunk_size


def test_a_recoded_send_that_has_written_everything_holds_nothing() -> None:
    """Neither its windows nor its last batch."""
    lazy = LazyRecodedRecords(log_of(2, Codec.ZSTD), {"zstd": "none"})
    done = []
    tracemalloc.start()
    try:
        for _ in range(20):
            send, channel = lazy.to_send(), Everything()
            sent(send, channel)
            channel.taken.clear()
            done.append(send)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(send.completed for send in done)
    assert held < 20 * 16 * KiB
