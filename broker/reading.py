"""What one partition contributes to the answer of a fetch.

Records go out as they are, or converted. A conversion may leave nothing of a range: markers, and
batches of which compaction has taken what lay at or behind the offset asked for. An old client that
gets nothing asks for the same offset again, for ever. So a conversion reads on until there is a
record for it, and never sends one below the offset asked for [faults 2-4 of Kafka 3.9 with old
clients].

Not here: which policy (conversions.py), the order of decisions and waiting (fetch.py)."""

from dataclasses import dataclass

from broker.encoder import Sendable
from broker.joined_send import JoinedSend
from broker.partition import Partition
from downconvert import ConversionPolicy, LazyDownConvertRecords
from records import FileRecords


@dataclass(frozen=True, slots=True)
class Contribution:
    """records: to be sent. source_size: bytes of the log that they are of, which is what limits
    count. seen_to: below that offset there is nothing but what is sent here."""

    records: Sendable | bytes
    source_size: int
    seen_to: int


def nothing(seen_to: int) -> Contribution:
    return Contribution(b"", 0, seen_to)


def read_as_is(
    partition: Partition, offset: int, max_bytes: int, up_to: int, *, first: bool
) -> Contribution:
    """As on disk: at most `max_bytes`, but at least a batch for the `first` that has one."""
    records = partition.read(offset, max(max_bytes, 0), up_to)
    if not records.size or (records.size > max_bytes and not first):
        return nothing(offset)
    return Contribution(records.to_send(), records.size, up_to)


def read_converted(
    partition: Partition,
    offset: int,
    max_bytes: int,
    up_to: int,
    *,
    first: bool,
    magic: int,
    policy: ConversionPolicy,
) -> Contribution:
    """Converted to messages of format `magic`, none of them below `offset`."""
    position = offset
    while position < up_to:
        records = partition.read(position, max(max_bytes, 0), up_to)
        if not records.size or (records.size > max_bytes and not first):
            return nothing(position)
        lazy = LazyDownConvertRecords(records, magic, offset, policy)
        if lazy.size:
            return Contribution(JoinedSend([lazy.to_send()]), records.size, up_to)
        position = max(position, end_of(records)) if records.size else up_to
    return nothing(position)


def end_of(records: FileRecords) -> int:
    """The offset behind the last whole batch."""
    end = 0
    for header in records.batches():
        end = header.last_offset + 1
    return end
