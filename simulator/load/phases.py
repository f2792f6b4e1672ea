"""The parts of a conversion's CPU time: reading, decompressing, converting, compressing.

In a server these alternate every few microseconds, and reading a clock in between would distort
them. So they are measured outside of it: the same ranges of the same log, in one thread, each time
with one step more. What a step adds is its share.

Not here: what the server itself takes (server.py)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Final

from downconvert import ConversionPolicy, convert
from downconvert.broker.fetch_versions import magic_of
from downconvert.conversion.policies import parse_policy
from downconvert.storage import LogDir, TopicPartition
from records import FileRecords
from records.codecs import decompress
from records.formats import BATCH_HEADER_SIZE, V2, Codec
from records.units import GiB, MiB

from .options import LoadOptions
from .topic import TOPIC

ROUNDS: Final = 3  # of which the fastest counts
RANGE_SIZE: Final = 8 * MiB  # of the log, that is measured
UNCOMPRESSED: Final = dict.fromkeys(("gzip", "snappy", "lz4", "zstd"), "none")


@dataclass(frozen=True, slots=True)
class Shares:
    """Of a conversion's CPU time; together 1, or 0 where nothing is converted."""

    read: float = 0.0
    decompress: float = 0.0
    convert: float = 0.0
    compress: float = 0.0


def shares_of(directory: Path, options: LoadOptions) -> Shares:
    """Measured on the first partition, converted for the oldest clients."""
    old = [group for group in options.clients if group.is_old]
    magic = magic_of(old[0].version) if old else None
    if magic is None:
        return Shares()
    policy = parse_policy(options.policy)
    with LogDir.open(directory) as log_dir:
        records = log_dir.logs[TopicPartition(TOPIC, 0)].read(0, RANGE_SIZE)
        read = _seconds(lambda: _read(records, policy.chunk_size))
        decompressed = read + _seconds(lambda: _decompress(records))
        plain = replace(policy, recode=UNCOMPRESSED)
        converted = _seconds(lambda: _convert(records, magic, plain))
        compressed = _seconds(lambda: _convert(records, magic, policy))
    ends = [0.0, read, decompressed, converted, compressed]
    ends = [
        max(ends[: at + 1]) for at in range(len(ends))
    ]  # noise must not make a step's share negative
    if not _is_compressed(records):
        ends[2], ends[4] = ends[1], ends[3]
    steps = [end - start for start, end in pairwise(ends)]
    return Shares(*(step / sum(steps) for step in steps))


def _seconds(work: Callable[[], None]) -> float:
    """CPU seconds, the least of some rounds."""
    rounds = []
    for _ in range(ROUNDS):
        started = process_time()
        work()
        rounds.append(process_time() - started)
    return min(rounds)


def _read(records: FileRecords, chunk_size: int) -> None:
    """Two chunks at a time, as a conversion does."""
    window = memoryview(bytearray(2 * chunk_size))
    position = 0
    while position < records.size:
        position += records.read_into(window, position)


def _decompress(records: FileRecords) -> None:
    whole = bytearray(records.size)
    records.read_into(memoryview(whole), 0)
    position = 0
    for header in records.batches():
        if header.codec is not Codec.NONE:
            data = memoryview(whole)[position + BATCH_HEADER_SIZE : position + header.size]
            decompress(header.codec, data, limit=GiB, magic=V2)
        position += header.size


def _convert(records: FileRecords, magic: int, policy: ConversionPolicy) -> None:
    for _ in convert(records, magic, 0, policy):
        pass


def _is_compressed(records: FileRecords) -> bool:
    return any(header.codec is not Codec.NONE for header in records.batches())
