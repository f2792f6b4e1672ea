"""What is written: one topic for each thing that a producer can make and an old client may mind."""

from dataclasses import dataclass
from typing import Final

from records import Codec, Record, build
from records.record import Headers

START: Final = 1_700_000_000_000  # milliseconds
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are sent as one batch. `transaction`: whether it is committed or aborted; None:
    it is in none."""

    codec: Codec
    records: tuple[Record, ...]  # offsets from 0 on
    transaction: bool | None = None

    def encoded(self, producer_id: int = -1, producer_epoch: int = -1, sequence: int = -1) -> bytes:
        """As a producer sends it, in v2."""
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
    is_append_time: bool = False

    @property
    def has_transactions(self) -> bool:
        return any(batch.transaction is not None for batch in self.batches)

    @property
    def has_zstd(self) -> bool:
        return any(batch.codec is Codec.ZSTD for batch in self.batches)


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
    Plan("append-time", "the broker's own time", _three(Codec.GZIP), is_append_time=True),
    Plan(
        "single",
        "forty batches of one record",
        tuple(Batch(Codec.NONE, _records(1, 40, first=number)) for number in range(40)),
    ),
    Plan(
        "many",
        "sixteen batches of 25 records, of which a limit cuts some",
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
        "a committed and an aborted transaction, and one whose marker is the end of the log",
        (
            Batch(Codec.NONE, _records(3)),
            Batch(Codec.NONE, _records(4), transaction=True),
            Batch(Codec.NONE, _records(2)),
            Batch(Codec.NONE, _records(3), transaction=False),
            Batch(Codec.GZIP, _records(3)),
            Batch(Codec.GZIP, _records(2), transaction=True),
        ),
    ),
)
