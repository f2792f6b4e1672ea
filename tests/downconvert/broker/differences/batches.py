"""Records for Produce: most of them make sense, some are odd, and some are damaged.

Not here: which topic, producer and transaction they are for (values.py)."""

import time
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from records import Codec, Record, TimestampType, build, build_marker
from records.batches.builder import build_empty
from records.batches.control import ControlRecordType
from records.formats import V0, V1, V2
from tests.damage import damaged, mutated

from .identities import Rendered, Token

DAMAGED: Final = "damaged by"  # in the words for some batches
DAMAGED_SHARE: Final = 0.1
ODD_SHARE: Final = 0.1
# Fields of a batch with values that producers do not send. The checksum is right.
ODD_FIELDS: Final = (
    *(("attributes", bits) for bits in (0x05, 0x07, 0x08, 0x10, 0x20, 0x30, 0x40, 0x80, 0x100)),
    *(("base_offset", offset) for offset in (1, 100, -1)),
    *(("base_sequence", sequence) for sequence in (-1, -2, 5, 2**31 - 1)),
    *(("last_offset_delta", delta) for delta in (-1, 0, 5, 2**31 - 1)),
    *(("leader_epoch", epoch) for epoch in (0, 77, -5)),
    *(("max_timestamp", at) for at in (-1, -2, 5, 2**63 - 1)),
    *(("producer_epoch", epoch) for epoch in (-1, -2, 5)),
    *(("producer_id", number) for number in (-1, -2, 77_777)),
    *(("records_count", count) for count in (-1, 0, 1, 2, 5)),
    ("magic", 3),
)
CODECS: Final = 0x07  # bits of the attributes: the odd ones are no codec, or no codec of v0
ODD_MESSAGE_FIELDS: Final = (
    *(("attributes", bits) for bits in (0x04, 0x05, 0x07, 0x08, 0x10, 0x80 - 0x100)),
    *(("offset", offset) for offset in (1, 100, -1)),
    ("magic", 3),
)

# Milliseconds before now that are times near the limits, in the order of the records.
NOW: Final = int(time.time() * 1000)
OLDEST: Final = (
    (NOW, NOW - 1, 0),
    (NOW - (2**63 - 2 * 10**12), 0, 0),
    (0, NOW - (1 << 62), 0),
    (NOW - (1 << 53), NOW, 0),
)


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Batch(Rendered):
    """A batch of an idempotent producer."""

    token: Token
    epoch: int
    topic: str
    end: int  # the sequence number after it


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of the records: a producer (if it has an id) with its next sequence number."""

    producer: tuple[Token | int, int]
    is_in_transaction: bool
    topic: str
    sequence: int
    ages: tuple[tuple[int, ...], ...] = ()  # of odd records, besides the usual ones


def records_of(random: Random, sender: Sender, version: int) -> Rendered:
    """A batch for this version of Produce."""
    share, seed = random.random(), random.random()
    if share < ODD_SHARE:
        return _odd(random, version, sender.ages)
    made = _batch(random, sender, version)
    if share < 1 - DAMAGED_SHARE:
        return made
    return Rendered(
        f"{made.said}, {DAMAGED} {seed}",
        lambda id_of: mutated(made.make(id_of), Random(seed)),
    )


def _batch(random: Random, sender: Sender, version: int) -> Rendered:
    """A batch of the producer, or of none."""
    count = random.choice((1, 2, 3))
    codec = random.choice(tuple(Codec))
    key = random.choice((b"k", b"k", None))
    age = random.choice((0, 0, 1000, -1))
    now = int(time.time() * 1000)
    times = [-1 if age < 0 else now - age] * count
    records = [Record(i, times[i], TimestampType.CREATE, key, b"v%d" % i) for i in range(count)]
    magic = _magic(random, version)
    if magic < V2:
        codecs = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
        codec = codec if codec in codecs[: 4 if magic == V1 else 3] else Codec.NONE
        return Rendered(
            f"{count} messages of v{magic}, {codec.name}, key {key!r}, age {age}",
            lambda _: build(_of_format(records, magic), magic=magic, codec=codec),
        )
    token, epoch = sender.producer
    if not isinstance(token, Token) or random.random() < 0.3:
        return Rendered(
            f"{count} records, {codec.name}, key {key!r}, age {age}",
            lambda _: build(records, magic=V2, codec=codec),
        )
    sequence = max(0, sender.sequence + random.choice((0, 0, 0, 0, -count, 1)))
    transactional = sender.is_in_transaction and random.random() < 0.9
    said = f"{count} records of {token} epoch {epoch} from {sequence}, txn {transactional}"
    return Batch(
        said,
        lambda id_of: build(
            records,
            magic=V2,
            producer_id=id_of(token),
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        ),
        token=token,
        epoch=epoch,
        topic=sender.topic,
        end=sequence + count,
    )


def _odd(random: Random, version: int, more: tuple[tuple[int, ...], ...]) -> Rendered:
    """Whole records that no producer sends, of no producer's."""
    now = int(time.time() * 1000)
    key = random.choice((b"k", b"k", None))
    codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4))
    ages = random.choice(((0, 0, 0), (0, 1000, -(10**10)), (10**11, 0, 0), (0, now + 1, 0), *more))
    headers = random.choice((((),), ((("h", None),),), ((("", b"x"), ("", b"")),)))[0]
    magic = _magic(random, version)
    if magic < V2:
        headers, codec = (), codec if magic == V1 else Codec.NONE
    records = [
        Record(2 * i, now - age, TimestampType.CREATE, key, b"v%d" % i if i else None, headers)
        for i, age in enumerate(ages)
    ]
    has_gaps = random.random() < 0.2
    records = [one if has_gaps else replace(one, offset=one.offset // 2) for one in records]
    made = build(
        records if magic else _of_format(records, magic),
        magic=magic,
        codec=codec,
        timestamp_type=random.choice((TimestampType.CREATE, TimestampType.LOG_APPEND))
        if magic and random.random() < 0.2
        else TimestampType.CREATE,
    )
    said = f"odd: v{magic}, {codec.name}, key {key!r}, ages {ages}, {headers}, gaps {has_gaps}"
    kind = random.random()
    if kind < 0.1:
        return _always("no records", b"")
    if kind < 0.2:
        return _always(f"twice {said}", made + made)
    if kind < 0.25:
        marker = build_marker(
            random.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT)),
            offset=0,
            timestamp=now,
            producer_id=random.choice((0, 1, 77_777)),
        )
        return _always("a marker", marker)
    if kind < 0.3:
        return _always("a batch without records", build_empty(base_offset=0, last_offset=2))
    if kind < 0.75:
        field, value = random.choice(ODD_FIELDS if magic == V2 else ODD_MESSAGE_FIELDS)
        is_unreadable = field == "magic"  # no format has that number, and no codec
        if field == "attributes":
            is_unreadable = bool(value & CODECS)
            value |= 0 if is_unreadable else codec
        word = DAMAGED if is_unreadable else "with"
        return _always(f"{said}, {word} {field} {value}", damaged(made, field=field, to=value))
    return _always(said, made)


def _always(said: str, data: bytes) -> Rendered:
    return Rendered(said, lambda _: data)


def _magic(random: Random, version: int) -> int:
    return (V0, V0, V1, V2)[min(version, 3)] if random.random() < 0.9 else V2


def _of_format(records: list[Record], magic: int) -> list[Record]:
    """As old messages have them: those of v0 have no time."""
    if magic == V1:
        return records
    return [replace(one, timestamp=-1, timestamp_type=TimestampType.NONE) for one in records]


def names_damage(records: Any) -> bool:
    """Whether these records are damaged, by their words."""
    return DAMAGED in repr(records)
