"""Hypothesis strategies for records, batches and segments of every kind that a log may hold.

Each example carries its bytes and what a reader finds in them. A batch is drawn without its place,
and built when its first offset is known. So nothing overlaps, and nothing is filtered out. The
plain comes first in every choice: a failure shrinks to few, small, plain records.

Not here: damaged bytes (damage.py)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import cache, partial
from random import Random
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from records.batch import NONE
from records.batches.builder import build, build_empty, build_marker
from records.batches.control import KEY, ControlRecordType
from records.formats import NO_TIMESTAMP, V0, V1, V2, Codec, TimestampType
from records.record import Headers, Record

CREATE, LOG_APPEND = TimestampType.CREATE, TimestampType.LOG_APPEND
SEQUENCE_MAX: Final = 2**31 - 1
EPOCH_MAX: Final = 2**15 - 1
TODAY: Final = 1_600_000_000_000
LARGE_SIZE_MAX: Final = 40_000  # larger than a chunk


@dataclass(frozen=True, slots=True)
class Batch:
    """The output of one call of the builder: an entry, or one per record of uncompressed v0, v1."""

    data: bytes
    records: tuple[Record, ...]  # as a reader finds them
    magic: int
    codec: Codec
    last_offset: int  # the next batch begins behind it
    is_control: bool = False
    is_transactional: bool = False
    producer_id: int = NONE
    control_type: ControlRecordType | None = None

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """The facts of a failure, without kilobytes of records."""
        kind = "control" if self.is_control else "data"
        records = ", ".join(map(_in_short, self.records))
        data = self.data[:200].hex() + "..." * (len(self.data) > 200)
        printer.text(f"Batch(v{self.magic} {self.codec.name} {kind}: {records or 'empty'}; {data})")


def _in_short(record: Record) -> str:
    fields = [field.name for field in dataclass_fields(record)]
    return f"Record({', '.join(repr(getattr(record, name))[:40] for name in fields)})"


@dataclass(frozen=True, slots=True)
class Segment:
    """A log: batches, and perhaps the beginning of one more entry."""

    batches: tuple[Batch, ...]
    torn: bytes = b""

    @property
    def data(self) -> bytes:
        return b"".join(batch.data for batch in self.batches) + self.torn

    @property
    def records(self) -> list[Record]:
        """The records that consumers get: no control records."""
        return [r for batch in self.batches if not batch.is_control for r in batch.records]


# A batch that has been drawn, and is built once its first offset is known.
Unplaced: TypeAlias = Callable[[int], Batch]
# The drawn parts of a record: the step to its offset, timestamp, key, value, headers.
Drawn: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
Contents: TypeAlias = SearchStrategy[bytes | None]

# --- records

SMALL_CONTENTS: Final[Contents] = st.none() | st.binary(max_size=12)
CONTENTS: Final[Contents] = st.one_of(
    SMALL_CONTENTS,
    st.builds(lambda size: b"x" * size, st.integers(100, LARGE_SIZE_MAX)),
    st.builds(
        lambda size, seed: Random(seed).randbytes(size),
        st.integers(100, LARGE_SIZE_MAX),
        st.integers(0, 3),
    ),
)
TIMESTAMPS: Final = st.one_of(
    st.sampled_from([NO_TIMESTAMP, 0, 1]),
    st.integers(TODAY - 1000, TODAY + 1000),
    st.just(2**62),
)


# The first and the last letters that take one, two, three and four bytes in UTF-8. (Drawing from
# all of Unicode costs a process seconds before the first example.)
LETTERS: Final = "a \x00\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"


def _headers(*keys: str) -> SearchStrategy[Headers]:
    """Often none; else a few, of these keys among others, some without a value."""
    header = st.tuples(
        st.sampled_from(keys) | st.text(LETTERS, max_size=4), st.none() | st.binary(max_size=8)
    )
    return st.just(()) | st.builds(tuple, st.lists(header, min_size=1, max_size=4))


UTF8_HEADERS: Final = _headers("", "k", "\u0447\u0451", "\N{SNOWMAN}", "k" * 100)
HEADERS: Final = _headers("", "k", "\u0447\u0451", "k" * 100, "\udcff")  # the last is no UTF-8
# From one offset to the next: 1, or more where compaction took records away.
STEPS: Final = st.one_of(st.just(1), st.integers(1, 5), st.sampled_from([100, 2**27]))
PLAIN: Final[Drawn] = (1, TODAY, b"key", b"value", ())


@cache
def drawn_records(
    contents: Contents, headers: SearchStrategy[Headers]
) -> SearchStrategy[list[Drawn]]:
    """One plain record, a few of every kind, or many of one."""
    drawn = st.tuples(STEPS, TIMESTAMPS, contents, contents, headers)
    return st.one_of(
        st.just([PLAIN]),
        st.lists(drawn, min_size=1, max_size=2),
        st.lists(drawn, min_size=1, max_size=5),
        st.builds(_many, st.integers(1, 300), st.integers(0, 99)),
    )


def record_lists(contents: Contents = CONTENTS) -> SearchStrategy[list[Record]]:
    """Records from offset 1 on, with gaps between them."""
    return drawn_records(contents, HEADERS).map(partial(_placed, 0))


def _many(count: int, seed: int) -> list[Drawn]:
    """A batch's worth of events, at the price of one draw."""
    random = Random(seed)
    keys = (None, b"", *(b"key-%d" % n for n in range(20)))
    return [
        (
            1,
            TODAY + random.randrange(1000),
            random.choice(keys),
            b'{"event":%d,"of":"%s"}' % (random.getrandbits(60), b"page" * random.randrange(30)),
            (),
        )
        for _ in range(count)
    ]


def _placed(offset: int, drawn: list[Drawn]) -> list[Record]:
    """The records, the first one so many steps behind `offset`."""
    records = []
    for step, timestamp, key, value, headers in drawn:
        offset += step
        records.append(Record(offset, timestamp, CREATE, key, value, headers))
    return records


# --- batches

PRODUCERS: Final = st.one_of(
    st.just({"producer_id": NONE, "producer_epoch": NONE, "base_sequence": NONE}),
    st.fixed_dictionaries(
        {
            "producer_id": st.sampled_from([1, 2, 2**63 - 1]),
            "producer_epoch": st.sampled_from([0, EPOCH_MAX]),
            "base_sequence": st.sampled_from([0, 1, SEQUENCE_MAX - 1]),
            "transactional": st.booleans(),
        }
    ),
)
APPEND_TIMES: Final = st.sampled_from([None, TODAY + 5000, 0, NO_TIMESTAMP])  # None: CreateTime
HORIZONS: Final = st.sampled_from([None, TODAY, 0])
EMPTY_STEPS: Final = st.integers(0, 3)  # offsets that compaction took at a batch's end


@cache
def batches(
    magics: tuple[int, ...] = (V2, V1, V0),
    codecs: tuple[Codec, ...] = tuple(Codec),
    contents: Contents = CONTENTS,
    headers: SearchStrategy[Headers] = HEADERS,
) -> SearchStrategy[Unplaced]:
    """Batches of data, of every format and codec."""
    drawn = drawn_records(contents, headers)
    options: dict[int, dict[str, SearchStrategy[Any]]] = {
        V2: {
            "append_time": APPEND_TIMES,
            "producer": PRODUCERS,
            "delete_horizon": HORIZONS,
            "taken": st.none() | EMPTY_STEPS,
            "leader_epoch": st.sampled_from([NONE, 7]),
        },
        V1: {"append_time": APPEND_TIMES, "inside": st.booleans(), "taken": st.none() | st.just(0)},
        V0: {},
    }
    return st.one_of(
        [
            st.builds(
                partial,
                st.just(_data_batch),
                st.just(magic),
                st.sampled_from([c for c in codecs if c is not Codec.ZSTD or magic == V2]),
                drawn,
                **options[magic],
            )
            for magic in magics
        ]
    )


def emptied_batches() -> SearchStrategy[Unplaced]:
    """Batches as compaction leaves them if it removed all of their records."""
    return st.builds(partial, st.just(_emptied_batch), EMPTY_STEPS, TIMESTAMPS, PRODUCERS)


def control_batches(codecs: tuple[Codec, ...] = tuple(Codec)) -> SearchStrategy[Unplaced]:
    """The ends of transactions, and KRaft's own, which may be compressed."""
    kinds = [ControlRecordType.COMMIT, ControlRecordType.ABORT, ControlRecordType.LEADER_CHANGE]
    producers = st.sampled_from([1, 2, 2**63 - 1])
    return st.builds(
        partial,
        st.just(_control_batch),
        st.sampled_from(kinds),
        TIMESTAMPS,
        producers,
        st.sampled_from(codecs),
    )


def _data_batch(
    magic: int,
    codec: Codec,
    drawn: list[Drawn],
    first_offset: int,
    *,
    append_time: int | None = None,
    inside: bool = True,
    taken: int | None = None,
    producer: dict[str, Any] | None = None,
    delete_horizon: int | None = None,
    leader_epoch: int = NONE,
) -> Batch:
    """`taken`: compaction took the batch's first record, and so many at its end."""
    records = _placed(first_offset - 1, drawn)
    options: dict[str, Any] = {"base_offset": records[0].offset}
    if append_time is not None:
        options |= {"timestamp_type": LOG_APPEND, "append_time": append_time}
    if taken is not None:
        options["base_offset"] = first_offset
    last_offset = records[-1].offset
    if magic == V2:
        last_offset += taken or 0
        options |= producer or {}
        options |= {"delete_horizon": delete_horizon, "leader_epoch": leader_epoch}
        options["last_offset"] = last_offset
    elif magic == V1:
        options["append_time_inside"] = inside
    data = build(records, magic=magic, codec=codec, **options)
    return Batch(
        data,
        tuple(_as_read(record, magic, options) for record in records),
        magic,
        codec,
        last_offset,
        is_transactional=options.get("transactional", False),
        producer_id=options.get("producer_id", NONE),
    )


def _as_read(record: Record, magic: int, options: dict[str, Any]) -> Record:
    """The record as a reader returns it, from a batch that was built with these options."""
    if magic == V0:
        return replace(
            record, timestamp=NO_TIMESTAMP, timestamp_type=TimestampType.NONE, headers=()
        )
    if options.get("timestamp_type") is LOG_APPEND:
        record = replace(record, timestamp=options["append_time"], timestamp_type=LOG_APPEND)
    if magic == V1:
        return replace(record, headers=())
    sequence = options["base_sequence"]
    if sequence != NONE:
        sequence = (sequence + record.offset - options["base_offset"]) & SEQUENCE_MAX
    return replace(record, sequence=sequence)


def _emptied_batch(
    taken: int, max_timestamp: int, producer: dict[str, Any], first_offset: int
) -> Batch:
    last_offset = first_offset + taken
    data = build_empty(
        base_offset=first_offset, last_offset=last_offset, max_timestamp=max_timestamp, **producer
    )
    return Batch(
        data,
        (),
        V2,
        Codec.NONE,
        last_offset,
        is_transactional=producer.get("transactional", False),
        producer_id=producer["producer_id"],
    )


def _control_batch(
    kind: ControlRecordType, timestamp: int, producer_id: int, codec: Codec, first_offset: int
) -> Batch:
    if kind is ControlRecordType.LEADER_CHANGE:
        producer_id = NONE
        value = b"\0\0\0\0\0\1\0\0\0"
        change = Record(first_offset, timestamp, CREATE, KEY.pack(0, kind), value)
        data = build([change], magic=V2, codec=codec, control=True, leader_epoch=3)
    else:
        value, codec = bytes(6), Codec.NONE
        data = build_marker(kind, offset=first_offset, timestamp=timestamp, producer_id=producer_id)
    return Batch(
        data,
        (Record(first_offset, timestamp, CREATE, KEY.pack(0, kind), value),),
        V2,
        codec,
        first_offset,
        is_control=True,
        is_transactional=producer_id != NONE,
        producer_id=producer_id,
        control_type=kind,
    )


def placed(unplaced: SearchStrategy[Unplaced]) -> SearchStrategy[Batch]:
    """Single batches, from offset 0 on or somewhere behind it."""
    return st.builds(lambda batch, offset: batch(offset), unplaced, FIRST_OFFSETS)


# --- segments

FIRST_OFFSETS: Final = st.sampled_from([0, 1, 1000, 2**31 - 2, 2**40])
TORN_SHARES: Final = st.one_of(st.just(0.0), st.floats(0, 0.99))


@cache
def segments(
    magics: tuple[int, ...] = (V2, V1, V0),
    codecs: tuple[Codec, ...] = tuple(Codec),
    contents: Contents = CONTENTS,
    batches_max: int = 5,
) -> SearchStrategy[Segment]:
    """Logs of mixed batches, control batches first, among, or only; the end perhaps torn off."""
    kinds = [batches(magics, codecs, contents)]
    if V2 in magics:
        kinds += [emptied_batches(), control_batches(codecs)]
    return st.builds(
        _segment,
        FIRST_OFFSETS,
        st.lists(st.tuples(st.one_of(kinds), STEPS), max_size=batches_max),
        TORN_SHARES,
        st.sampled_from([V2, V1, V0]),
    )


def _segment(
    offset: int, drawn: list[tuple[Unplaced, int]], torn_share: float, torn_magic: int
) -> Segment:
    placed = []
    for unplaced, step in drawn:
        placed.append(unplaced(offset))
        offset = placed[-1].last_offset + step
    whole = build([Record(offset, TODAY, CREATE, b"key", b"value")], magic=torn_magic)
    return Segment(tuple(placed), whole[: int(torn_share * len(whole))])
