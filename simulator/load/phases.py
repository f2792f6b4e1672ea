"""The parts of a conversion's CPU time: reading, decompressing, converting, compressing, sending.

In a server these alternate every few microseconds, and reading a clock in between would distort
them. So they are measured separately, in one thread: the same ranges of the same log are processed
several times, each time with one step more. The added time of a step is its share.

Not here: the server's own time (server.py)."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from select import select
from threading import Thread
from time import thread_time
from typing import Any, Final

from downconvert import LazyDownConvertRecords
from downconvert.broker.network.processor import WRITE_BUDGET
from downconvert.conversion.policies import parse_policy
from downconvert.protocol.fetch_versions import magic_of
from downconvert.storage import LogDir, TopicPartition
from records import Codec, FileRecords, MemoryRecords, build, read
from records.files.sends import Send
from records.units import MiB

from .options import LoadOptions
from .topic import TOPIC

ROUNDS: Final = 3  # the fastest counts
RANGE_SIZE: Final = 8 * MiB  # the measured part of the log
UNCOMPRESSED: Final = dict.fromkeys(("gzip", "snappy", "lz4", "zstd"), "none")


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of a conversion's CPU time; together 1, or 0 without conversion."""

    read: float = 0.0
    convert: float = 0.0
    decompress: float = 0.0
    compress: float = 0.0
    send: float = 0.0


def shares_of(directory: Path, options: LoadOptions) -> Shares:
    """Measures on the first partition, converted for the oldest clients."""
    old = [group for group in options.clients if group.is_old]
    magic = magic_of(old[0].version) if old else None
    if magic is None:
        return Shares()
    policy = parse_policy(options.policy)
    # With exact sizes, recompressed records would be made before the send, and not be timed.
    all_of_it = replace(policy, size="estimate")
    with LogDir.open(directory) as log_dir:
        records = log_dir.logs[TopicPartition(TOPIC, 0)].read(0, RANGE_SIZE)
        read_once = _seconds(lambda: _read(records, policy.chunk_size))
        recode_to_none = replace(policy, recode=UNCOMPRESSED)
        bare = LazyDownConvertRecords(_uncompressed(records), magic, policy=recode_to_none)
        plain = LazyDownConvertRecords(records, magic, policy=recode_to_none)
        whole = LazyDownConvertRecords(records, magic, policy=all_of_it)
        with Path(os.devnull).open("wb", buffering=0) as nowhere, _drained() as channel:
            converted = _seconds(lambda: _write(bare.to_send(), nowhere))
            decompressed = _seconds(lambda: _write(plain.to_send(), nowhere))
            compressed = _seconds(lambda: _write(whole.to_send(), nowhere))
            sent = _seconds(lambda: _write(whole.to_send(), channel))
    # These records are in memory, so converting them includes no reading.
    ends = [0.0, read_once, read_once + converted, decompressed, compressed, sent]
    if not _is_compressed(records):
        ends[2] = ends[3] = ends[4] = compressed
    # Noise must not make a step's share negative.
    ends = [max(ends[: at + 1]) for at in range(len(ends))]
    steps = [end - start for start, end in pairwise(ends)]
    return Shares(*(step / sum(steps) for step in steps))


def _seconds(work: Callable[[], None]) -> float:
    """CPU seconds of this thread: the minimum of some rounds."""
    rounds = []
    for _ in range(ROUNDS):
        started = thread_time()
        work()
        rounds.append(thread_time() - started)
    return min(rounds)


def _read(records: FileRecords, chunk_size: int) -> None:
    """Reads two chunks at a time, as a conversion does."""
    window = memoryview(bytearray(2 * chunk_size))
    position = 0
    while position < records.size:
        position += records.read_into(window, position)


def _uncompressed(records: FileRecords) -> MemoryRecords:
    """The same records in batches that are not compressed."""
    batches = (records.slice(header.position, header.size) for header in records.batches())
    return MemoryRecords(b"".join(build(read(batch), magic=2) for batch in batches))


def _write(send: Send, channel: Any) -> None:
    """Writes the send, with one call of the kernel in each turn."""
    while not send.completed:
        if not send.write_to(channel, WRITE_BUDGET):
            select([], [channel], [])


@contextmanager
def _drained() -> Iterator[socket.socket]:
    """A loopback connection whose other end a thread reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    near.setblocking(False)
    thread = Thread(target=_drain, args=(far,), daemon=True)
    thread.start()
    try:
        yield near
    finally:
        near.close()
        thread.join()


def _drain(far: socket.socket) -> None:
    buffer = bytearray(MiB)
    with far:
        while far.recv_into(buffer):
            pass


def _is_compressed(records: FileRecords) -> bool:
    return any(header.codec is not Codec.NONE for header in records.batches())
