"""Other people's readers: kafka-python's and aiokafka's, as judges of what we write.

They check checksums, and what they give is compared as our own records are, but for two differences
that are theirs: -1 is no timestamp to one of them, and neither tells sequence numbers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from records import Codec, MemoryRecords, Record, TimestampType
from records.formats import NO_TIMESTAMP, V0, V1, V2


@dataclass(frozen=True, slots=True)
class OtherReader:
    """A reader, and the codecs that it can read with what the tests install."""

    name: str
    open: Callable[[bytes], Any]
    codecs: tuple[Codec, ...]
    reads_lz4_of_v0: bool

    def codecs_of(self, magic: int) -> tuple[Codec, ...]:
        """Those that it reads in this format, of those that the format has."""
        lacking = {V0: {Codec.ZSTD}, V1: {Codec.ZSTD}, V2: set[Codec]()}[magic]
        if magic == V0 and not self.reads_lz4_of_v0:
            lacking.add(Codec.LZ4)
        return tuple(codec for codec in self.codecs if codec not in lacking)

    def read(self, data: bytes) -> list[Record]:
        """All records. They are given to it one format at a time, since aiokafka takes the format
        of the first message in a response for that of all."""
        found = []
        for _, headers in groupby(MemoryRecords(data).batches(), attrgetter("magic")):
            run = list(headers)
            unread = self.open(data[run[0].position : run[-1].position + run[-1].size])
            while (batch := unread.next_batch()) is not None:
                assert batch.validate_crc()
                found += [_record(theirs) for theirs in batch]
        return found


OTHER_READERS: Final = (
    OtherReader(
        "kafka-python",
        KafkaPythonRecords,
        (Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD),
        reads_lz4_of_v0=True,
    ),
    OtherReader("aiokafka", AiokafkaRecords, tuple(Codec), reads_lz4_of_v0=False),
)


def as_others_tell(record: Record) -> Record:
    """A record without what other readers do not tell."""
    record = replace(record, sequence=-1)
    if record.timestamp == NO_TIMESTAMP:
        return replace(record, timestamp_type=TimestampType.NONE)
    return record


def _record(theirs: Any) -> Record:
    kind = TimestampType.NONE if theirs.timestamp_type is None else theirs.timestamp_type
    return as_others_tell(
        Record(
            theirs.offset,
            NO_TIMESTAMP if theirs.timestamp is None else theirs.timestamp,
            TimestampType(kind),
            theirs.key,
            theirs.value,
            tuple(theirs.headers),
        )
    )
