"""Hypothesis strategies for records, batches and segments of every kind that a log may hold.

Whatever is drawn carries its bytes and what a reader finds in them. Nothing is filtered out:
offsets are drawn as steps, so that they increase. The plain comes first in every choice, so that a
failure shrinks to few, small, plain records.

Not here: damaged bytes (fuzzing starts from these)."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from records.batch import NONE
from records.builder import build, build_empty, build_marker
from records.control import KEY, ControlRecordType
from records.formats import NO_TIMESTAMP, V0, V1, V2, Codec, TimestampType
from records.record import Record

SEQUENCE_MAX: Final = 2**31 - 1
TIMESTAMP: Final = 1_600_000_000_000
LARGE_SIZE_MAX: Final = (
    40_000  # larger than a chunk, and than two lz4 or snappy blocks of its batch
)
KAFKA_EPOCH_MAX: Final = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call of the builder wrote: one entry, or one per record of uncompressed v0, v1."""

    data: bytes
    records: tuple[Record, ...]  # as a reader finds them
    magic: int
    codec: Codec
    last_offset: int  # the next batch begins behind it
    is_control: bool = False
    is_transactional: bool = False
    producer_id: int = NONE

    def __repr__(self) -> str:
        """All that is needed to see what a failure is about."""
        return (
            f"Batch(v{self.magic}, {self.codec.name}, control={self.is_control}, "
            f"{list(self.records)}, {self.data[:200].hex()}{'...' * (len(self.data) > 200)})"
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """A log: batches, and perhaps the beginning of one more."""

    batches: tuple[Batch, ...]
    torn: bytes = b""

    @property
    def data(self) -> bytes:
        return b"".join(batch.data for batch in self.batches) + self.torn

    @property
    def records(self) -> list[Record]:
        """All of them, control records too."""
        return [record for batch in self.batches for record in batch.records]

    @property
    def data_records(self) -> list[Record]:
        """Those that consumers are given."""
        return [r for batch in self.batches if not batch.is_control for r in batch.records]


def contents() -> SearchStrategy[bytes | None]:
    """Keys and values: null, empty, small, and large, both plain and random."""
    return st.one_of(
        st.none(),
        st.binary(max_size=12),
        st.builds(lambda size: b"x" * size, st.integers(100, LARGE_SIZE_MAX)),
        st.builds(
            lambda size, seed: Random(seed).randbytes(size),
            st.integers(100, LARGE_SIZE_MAX),
            st.integers(0, 3),
        ),
    )


def small_contents() -> SearchStrategy[bytes | None]:
    """Keys and values of few bytes."""
    return st.none() | st.binary(max_size=12)


def timestamps() -> SearchStrategy[int]:
    """None, the first ones, today's (they need not increase), and large ones."""
    return st.one_of(
        st.sampled_from([NO_TIMESTAMP, 0, 1]),
        st.integers(TIMESTAMP - 1000, TIMESTAMP + 1000),
        st.just(2**62),
    )


def headers() -> SearchStrategy[tuple[tuple[str, bytes | None], ...]]:
    """Often none; else with empty, repeated, non-ASCII keys, keys that are no UTF-8, and nulls."""
    keys = st.one_of(
        st.sampled_from(["", "k", "\u0447\u0451", "\N{SNOWMAN}", "\udcff", "k" * 100]),
        st.text(max_size=4),
    )
    some = st.lists(st.tuples(keys, st.none() | st.binary(max_size=8)), min_size=1, max_size=4)
    return st.just(()) | st.builds(tuple, some)


def steps() -> SearchStrategy[int]:
    """From one offset to the next: mostly 1; more where compaction took records away."""
    return st.one_of(st.just(1), st.just(1), st.integers(2, 5), st.sampled_from([100, 2**27]))


@st.composite
def record_lists(
    draw: DrawFn, first_offset: int, *, size: SearchStrategy[bytes | None], count_max: int = 5
) -> list[Record]:
    """Records from `first_offset` on, with gaps between them, as compaction may leave them."""
    if draw(st.integers(0, 9)) == 9:
        return many_records(first_offset, draw(st.integers(1, 300)), draw(st.integers(0, 99)))
    found = []
    offset = first_offset
    for _ in range(draw(st.integers(1, count_max))):
        found.append(
            Record(
                offset,
                draw(timestamps()),
                TimestampType.CREATE,
                draw(size),
                draw(size),
                draw(headers()),
            )
        )
        offset += draw(steps())
    return found


def many_records(first_offset: int, count: int, seed: int) -> list[Record]:
    """A batch's worth of events, at the price of one draw."""
    random = Random(seed)
    return [
        Record(
            first_offset + index,
            TIMESTAMP + random.randrange(1000),
            TimestampType.CREATE,
            random.choice((None, b"", b"key-%d" % random.randrange(20))),
            b'{"event":%d,"of":"%s"}' % (random.getrandbits(60), b"page" * random.randrange(30)),
        )
        for index in range(count)
    ]


@st.composite
def batches(
    draw: DrawFn,
    first_offset: int = 0,
    *,
    magics: tuple[int, ...] = (V2, V1, V0),
    codecs: tuple[Codec, ...] = tuple(Codec),
    size: SearchStrategy[bytes | None] | None = None,
) -> Batch:
    """A batch of data of any format and codec, with records from `first_offset` or behind it."""
    magic = draw(st.sampled_from(magics))
    codec = draw(st.sampled_from([c for c in codecs if c is not Codec.ZSTD or magic == V2]))
    records = draw(record_lists(first_offset + draw(st.integers(0, 3)), size=size or contents()))
    options: dict[str, Any] = {}
    kind = TimestampType.NONE
    if magic > V0:
        kind = draw(st.sampled_from([TimestampType.CREATE, TimestampType.LOG_APPEND]))
        options["timestamp_type"] = kind
        if kind is TimestampType.LOG_APPEND:
            options["append_time"] = draw(st.sampled_from([TIMESTAMP + 5000, 0, NO_TIMESTAMP]))
    if magic == V1 and codec:
        options["append_time_inside"] = draw(st.booleans())
        options["base_offset"] = draw(st.sampled_from([records[0].offset, first_offset]))
    if magic == V2:
        options |= draw(_options_of_v2(first_offset, records))
    data = build(records, magic=magic, codec=codec, **options)
    return Batch(
        data,
        tuple(_as_read(record, magic, kind, options) for record in records),
        magic,
        codec,
        options.get("last_offset", records[-1].offset),
        is_transactional=options.get("transactional", False),
        producer_id=options.get("producer_id", NONE),
    )


@st.composite
def _options_of_v2(draw: DrawFn, first_offset: int, records: list[Record]) -> dict[str, Any]:
    options = draw(_producers()) | {"leader_epoch": draw(st.sampled_from([NONE, 0, 7]))}
    if options["producer_id"] != NONE:
        options["transactional"] = draw(st.booleans())
    if draw(st.booleans()):  # compaction took the first, or the last
        options["base_offset"] = first_offset
        options["last_offset"] = records[-1].offset + draw(st.integers(0, 3))
    else:
        options["base_offset"] = records[0].offset
    options["delete_horizon"] = draw(st.sampled_from([None, TIMESTAMP, 0]))
    return options


@st.composite
def _producers(draw: DrawFn) -> dict[str, Any]:
    if not draw(st.booleans()):
        return {"producer_id": NONE, "producer_epoch": NONE, "base_sequence": NONE}
    return {
        "producer_id": draw(st.sampled_from([0, 1, 2**63 - 1])),
        "producer_epoch": draw(st.sampled_from([0, KAFKA_EPOCH_MAX])),
        "base_sequence": draw(st.sampled_from([0, 1, SEQUENCE_MAX - 1])),
    }


@st.composite
def emptied_batches(draw: DrawFn, first_offset: int = 0) -> Batch:
    """What compaction leaves where it took everything."""
    producer = draw(_producers())
    last_offset = first_offset + draw(st.integers(0, 3))
    data = build_empty(
        base_offset=first_offset,
        last_offset=last_offset,
        max_timestamp=draw(timestamps()),
        transactional=producer["producer_id"] != NONE and draw(st.booleans()),
        **producer,
    )
    return Batch(data, (), V2, Codec.NONE, last_offset, producer_id=producer["producer_id"])


@st.composite
def control_batches(draw: DrawFn, first_offset: int = 0) -> Batch:
    """The end of a transaction, or one of KRaft's own."""
    kind = draw(
        st.sampled_from(
            [ControlRecordType.COMMIT, ControlRecordType.ABORT, ControlRecordType.LEADER_CHANGE]
        )
    )
    timestamp = draw(timestamps())
    if kind is ControlRecordType.LEADER_CHANGE:
        producer = NONE
        change = Record(
            first_offset, timestamp, TimestampType.CREATE, KEY.pack(0, kind), b"\0\0\0\0\0\1\0\0\0"
        )
        data = build([change], magic=V2, control=True, leader_epoch=3)
        value = change.value
    else:
        producer = draw(st.sampled_from([0, 1, 2**63 - 1]))
        data = build_marker(kind, offset=first_offset, timestamp=timestamp, producer_id=producer)
        value = bytes(6)
    record = Record(first_offset, timestamp, TimestampType.CREATE, KEY.pack(0, kind), value)
    return Batch(
        data,
        (record,),
        V2,
        Codec.NONE,
        first_offset,
        is_control=True,
        is_transactional=producer != NONE,
        producer_id=producer,
    )


@st.composite
def segments(
    draw: DrawFn,
    *,
    magics: tuple[int, ...] = (V2, V1, V0),
    codecs: tuple[Codec, ...] = tuple(Codec),
    size: SearchStrategy[bytes | None] | None = None,
    batches_max: int = 5,
) -> Segment:
    """A log of mixed batches: control batches first, among, or only; its end perhaps torn off."""
    offset = draw(st.sampled_from([0, 1, 1000, 2**31 - 2, 2**40]))
    kinds = st.sampled_from(["data", "data", "data", "emptied", "control"])
    found: list[Batch] = []
    for kind in draw(st.lists(kinds if V2 in magics else st.just("data"), max_size=batches_max)):
        if kind == "data":
            batch = draw(batches(offset, magics=magics, codecs=codecs, size=size))
        else:
            batch = draw(emptied_batches(offset) if kind == "emptied" else control_batches(offset))
        found.append(batch)
        offset = batch.last_offset + draw(steps())
    return Segment(tuple(found), draw(_torn(offset)))


@st.composite
def _torn(draw: DrawFn, offset: int) -> bytes:
    """Nothing, or less than the whole of one more entry."""
    if not draw(st.booleans()):
        return b""
    last = Record(offset, TIMESTAMP, TimestampType.CREATE, b"key", b"value")
    whole = build([last], magic=draw(st.sampled_from([V2, V1, V0])))
    return whole[: draw(st.integers(0, len(whole) - 1))]


def _as_read(record: Record, magic: int, kind: TimestampType, options: dict[str, Any]) -> Record:
    """What a reader makes of a record in a batch built with these options."""
    record = replace(record, timestamp_type=kind)
    if kind is TimestampType.LOG_APPEND:
        record = replace(record, timestamp=options["append_time"])
    if magic == V0:
        record = replace(record, timestamp=NO_TIMESTAMP)
    if magic < V2:
        return replace(record, headers=())
    sequence = options["base_sequence"]
    if sequence != NONE:
        sequence = (sequence + record.offset - options["base_offset"]) & SEQUENCE_MAX
    return replace(record, sequence=sequence)
