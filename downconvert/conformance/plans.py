"""The written topics: one for each feature of producers that old clients may not support."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from records import Codec, Record, build
from records.record import Headers

START: Final = 1_700_000_000_000  # milliseconds
KEPT: Final = {"retention.ms": "-1"}  # all topics: their records are old
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
# A segment for each batch, by their times, and a cleaner that starts as soon as possible.
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "1000",
}
FORMAT: Final = "message.format.version"


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are sent as one batch. `transaction`: whether it is committed or aborted; None
    without a transaction."""

    codec: Codec
    records: tuple[Record, ...]  # offsets from 0 on
    transaction: bool | None = None

    def encoded(self, producer_id: int = -1, producer_epoch: int = -1, sequence: int = -1) -> bytes:
        """The batch as a producer sends it, in v2."""
        return build(
            self.records,
            magic=2,
            codec=self.codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            transactional=self.transaction is not None,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """A topic."""

    name: str
    what: str
    batches: tuple[Batch, ...]
    config: Mapping[str, str] = field(default_factory=dict, hash=False)
    magic: int = 2  # of the log, if the broker writes that format

    @property
    def is_append_time(self) -> bool:
        return "message.timestamp.type" in self.config

    @property
    def is_compacted(self) -> bool:
        return "cleanup.policy" in self.config

    @property
    def has_transactions(self) -> bool:
        return any(batch.transaction is not None for batch in self.batches)

    @property
    def has_zstd(self) -> bool:
        return any(batch.codec is Codec.ZSTD for batch in self.batches)

    def latest(self) -> set[tuple[int, int]]:
        """The last record of each key: the number of its batch, and its offset in that."""
        return _latest(enumerate(self.batches))

    @property
    def compacted_count(self) -> int:
        """The number of records after cleaning, which leaves out the last segment."""
        *inactive, active = self.batches
        return len(_latest(enumerate(inactive))) + len(active.records)


def _latest(batches: Iterable[tuple[int, Batch]]) -> set[tuple[int, int]]:
    last = {
        record.key: (number, record.offset) for number, batch in batches for record in batch.records
    }
    return set(last.values())


def _records(
    count: int, size: int = 100, headers: Headers = (), first: int = 0
) -> tuple[Record, ...]:
    return tuple(
        Record(
            offset,
            START + first + offset,
            key=b"key-%d" % (first + offset),
            value=(b"%d " % (first + offset)) * (size // 4),
            headers=headers,
        )
        for offset in range(count)
    )


def _three(codec: Codec) -> tuple[Batch, ...]:
    return tuple(Batch(codec, _records(20, first=20 * number)) for number in range(3))


_ODD: Final = (
    Record(0, START, key=None, value=b"no key"),
    Record(1, START + 1, key=b"no value", value=None),
    Record(2, START + 2, key=b"", value=b""),
    Record(3, START - 5, key=b"earlier", value=b"than the one before"),
    Record(4, START + 9, key=b"k", value=b"v", headers=(("a", b"1"), ("a", None), ("", b""))),
)


def _repeated(number: int) -> Batch:
    """A batch of keys that all batches repeat. Every fourth batch also has a key of its own. After
    compaction, each of these has one record left, and the batches in between have none."""
    own = (b"own-%d" % number,) if number % 4 == 0 else ()
    keys = (*(b"key-%d" % key for key in range(10)), *own)
    time = START + 10_000 * number
    records = (
        Record(offset, time + offset, key=key, value=b"%d " % number * 20)
        for offset, key in enumerate(keys)
    )
    return Batch(Codec.GZIP if number % 8 == 4 else Codec.NONE, tuple(records))


_PLAIN_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)

PLANS: Final = (
    *(
        Plan(
            codec.name.lower(), f"three batches of 20 records, {codec.name.lower()}", _three(codec)
        )
        for codec in (*_PLAIN_CODECS, Codec.ZSTD)
    ),
    Plan(
        "mixed",
        "a batch of each codec but zstd",
        tuple(Batch(codec, _records(5)) for codec in _PLAIN_CODECS),
    ),
    Plan(
        "odd",
        "null and empty keys, values and headers; a time that goes back",
        (Batch(Codec.NONE, _ODD), Batch(Codec.GZIP, _ODD)),
    ),
    Plan("append-time", "the broker's own time", _three(Codec.GZIP), APPEND_TIME),
    Plan(
        "single",
        "forty batches of one record",
        tuple(Batch(Codec.NONE, _records(1, 40, first=number)) for number in range(40)),
    ),
    Plan(
        "many",
        "sixteen batches of 25 records, some cut by a limit",
        tuple(Batch(Codec.NONE, _records(25, first=25 * number)) for number in range(16)),
    ),
    Plan(
        "large",
        "a record of 300 KB between small ones",
        (
            Batch(Codec.NONE, _records(5)),
            Batch(Codec.NONE, _records(1, 300_000)),
            Batch(Codec.NONE, _records(5)),
        ),
    ),
    Plan(
        "transactions",
        "a committed and an aborted transaction, and a marker at the end of the log",
        (
            Batch(Codec.NONE, _records(3)),
            Batch(Codec.NONE, _records(4), transaction=True),
            Batch(Codec.NONE, _records(2)),
            Batch(Codec.NONE, _records(3), transaction=False),
            Batch(Codec.GZIP, _records(3)),
            Batch(Codec.GZIP, _records(2), transaction=True),
        ),
    ),
    Plan(
        "compacted",
        "repeated keys, after the cleaner: gaps, and batches of one record and of none",
        tuple(map(_repeated, range(20))),
        COMPACTED,
    ),
    *(
        Plan(
            f"stored-v{magic}",
            f"a log of v{magic}, if the broker still writes v{magic}: a batch of each codec",
            # Producers send no headers to such a topic, because its format has none.
            (
                *(Batch(codec, _records(15)) for codec in _PLAIN_CODECS),
                Batch(Codec.NONE, _ODD[:-1]),
            ),
            {FORMAT: release},
            magic,
        )
        for magic, release in ((0, "0.9.0"), (1, "0.10.2"))
    ),
)
