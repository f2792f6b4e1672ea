"""A log of arbitrary batches, and the records that clients are to get of it.

All formats and codecs, in any order; contents that compress to a thousandth or not at all, or in
zstd alone; gaps in the offsets, batches without records, markers, control batches of KRaft, also
compressed; records larger than any window, by their keys or values; headers; CreateTime and
LogAppendTime; transactions of two producers, one inside the other or not, committed or aborted.

Not here: who reads it (world.py)."""

from collections.abc import Callable
from random import Random
from typing import Final, Literal, NamedTuple, TypeAlias

from downconvert import AbortedTransaction
from records import Codec, Record, TimestampType, build, build_empty, build_marker
from records.batches.control import KEY, ControlRecordType
from records.formats import NO_TIMESTAMP, V0, V1, V2
from records.record import Headers

LEGACY_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
SIZES: Final = (0, 20, 20, 300, 300, 2_000)
LARGE_SIZES: Final = (*SIZES, 20_000, 70_000, 200_000)
TIMES: Final = (0, 10**12, 2**62)  # milliseconds
KINDS: Final = (*[TimestampType.CREATE] * 4, TimestampType.LOG_APPEND)
FAR: Final = 36_000  # bytes between what is repeated: zstd finds it again, gzip and snappy do not

PRODUCERS: Final = (7, 8)  # of transactions
ENDS: Final = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
# Keys of control records that end no transaction. The last three cannot be read.
CONTROL_KEYS: Final = (KEY.pack(0, ControlRecordType.LEADER_CHANGE), b"", b"\0", None)

Found: TypeAlias = tuple[int, int, bytes | None, bytes | None]  # offset, timestamp, key, value
Content: TypeAlias = Callable[[Random, int], bytes]


Zstd: TypeAlias = Literal["anywhere", "aborted", "nowhere"]  # which batches may have it


class AnyLog(NamedTuple):
    """start: its first offset. data: its bytes. truth: what consumers are to get, in order.
    committed: what those are to get that read committed records only. aborted: the aborted
    transactions, with the offsets of their markers."""

    start: int
    data: bytes
    truth: tuple[Found, ...]
    committed: tuple[Found, ...]
    aborted: tuple[AbortedTransaction, ...]


class _Transaction(NamedTuple):
    """A transaction that has begun. end: how it will end."""

    producer_id: int
    first_offset: int
    end: ControlRecordType


def _zeros(_: Random, size: int) -> bytes:
    return bytes(size)


def _noise(random: Random, size: int) -> bytes:
    return random.randbytes(size)


def _half(random: Random, size: int) -> bytes:
    return random.randbytes(size // 2).ljust(size, b"-")


def _text(random: Random, size: int) -> bytes:
    return (b'{"page":"/%d","of":"%d"}' % (random.randrange(99), random.randrange(9)) * size)[:size]


CONTENTS: Final[tuple[Content, ...]] = (_zeros, _noise, _half, _text)


def any_log(random: Random, *, is_large: bool, zstd: Zstd = "anywhere") -> AnyLog:
    """Some batches. `is_large`: up to megabytes, where the usual log has kilobytes."""
    making = _Making(random, zstd)
    for _ in range(random.choice((1, 2, 4, 8, 16))):
        kind = random.random()
        if kind < 0.06:
            making.add(build_empty(base_offset=making.offset, last_offset=making.offset + 2), 3)
        elif kind < 0.10:
            making.marker(1, random.choice(ENDS))
        elif kind < 0.14:
            making.control()
        elif making.open and kind < 0.27:
            making.end(random.choice(making.open))
        else:
            making.batch(_records(random, making.offset, is_large=is_large))
    for each in list(making.open):
        making.end(each)
    return making.log


class _Making:
    """A log that is being made."""

    def __init__(self, random: Random, zstd: Zstd) -> None:
        self._random = random
        self._zstd = zstd
        # How many of the batches are.
        self._transactional = 0.5 if zstd == "aborted" else random.choice((0, 0, 0.5))
        self._start = self.offset = random.choice((0, 0, 7, 2**31 - 20))
        self._parts: list[bytes] = []
        self._truth: list[Found] = []
        self._left_out: set[int] = set()  # offsets
        self._aborted: list[AbortedTransaction] = []
        self.open: list[_Transaction] = []

    @property
    def log(self) -> AnyLog:
        committed = [each for each in self._truth if each[0] not in self._left_out]
        data, aborted = b"".join(self._parts), tuple(self._aborted)
        return AnyLog(self._start, data, tuple(self._truth), tuple(committed), aborted)

    def add(self, batch: bytes, offsets: int) -> None:
        self._parts.append(batch)
        self.offset += offsets

    def marker(self, producer_id: int, end: ControlRecordType) -> None:
        self.add(build_marker(end, offset=self.offset, timestamp=1, producer_id=producer_id), 1)

    def control(self) -> None:
        """A control batch that ends no transaction. Its codec may be one that clients refuse."""
        change = Record(
            self.offset, 1, TimestampType.CREATE, self._random.choice(CONTROL_KEYS), b""
        )
        codec = self._random.choice(tuple(Codec))
        self.add(build([change], magic=V2, codec=codec, control=True), 1)

    def end(self, transaction: _Transaction) -> None:
        self.open.remove(transaction)
        producer_id, first_offset, end = transaction
        if end is ControlRecordType.ABORT:
            self._aborted.append(AbortedTransaction(producer_id, first_offset, self.offset))
        self.marker(producer_id, end)

    def batch(self, records: list[Record]) -> None:
        random = self._random
        transaction = None
        if random.random() < self._transactional:
            transaction = self._transaction(random.choice(PRODUCERS))
        is_aborted = transaction is not None and transaction.end is ControlRecordType.ABORT
        has_zstd = self._zstd == "anywhere" or (self._zstd == "aborted" and is_aborted)
        batch, timestamps = _batch(random, records, transaction, has_zstd=has_zstd)
        self._parts.append(batch)
        self._truth += (
            (each.offset, timestamp, each.key, each.value)
            for each, timestamp in zip(records, timestamps, strict=True)
        )
        if is_aborted:
            self._left_out.update(each.offset for each in records)
        self.offset = records[-1].offset + random.choice((1, 1, 1, 5))

    def _transaction(self, producer_id: int) -> _Transaction:
        for each in self.open:
            if each.producer_id == producer_id:
                return each
        begun = _Transaction(producer_id, self.offset, self._random.choice(ENDS))
        self.open.append(begun)
        return begun


def _batch(
    random: Random, records: list[Record], transaction: _Transaction | None, *, has_zstd: bool
) -> tuple[bytes, list[int]]:
    """A batch, and the timestamps that its records have."""
    magic = V2 if transaction else random.choice((V2, V2, V2, V2, V1, V0))
    codecs = tuple(Codec) if magic == V2 and has_zstd else LEGACY_CODECS
    kind = TimestampType.NONE if magic == V0 else random.choice(KINDS)
    timestamps = [each.timestamp for each in records]
    if kind is not TimestampType.CREATE:
        timestamps = [NO_TIMESTAMP if magic == V0 else timestamps[-1]] * len(records)
    records = [
        Record(each.offset, timestamp, kind, each.key, each.value, each.headers)
        for each, timestamp in zip(records, timestamps, strict=True)
    ]
    codec = random.choice(codecs)
    batch = build(
        records,
        magic=magic,
        codec=codec,
        timestamp_type=kind,
        transactional=transaction is not None,
        producer_id=-1 if transaction is None else transaction.producer_id,
        producer_epoch=-1 if transaction is None else 0,
        base_sequence=-1 if transaction is None else 0,
    )
    return batch, timestamps


def _records(random: Random, offset: int, *, is_large: bool) -> list[Record]:
    if is_large and random.random() < 0.1:
        return _far(random, offset)
    content = random.choice(CONTENTS)
    sizes = LARGE_SIZES if is_large else SIZES
    size, count = random.choice(sizes), random.choice((1, 1, 2, 5, 20))
    if size * count > 1_000_000:
        count = 5
    is_alike = random.random() < 0.7
    has_large_keys, headers_max = random.random() < 0.1, random.choice((0, 0, 0, 1, 30))
    time, step = random.choice(TIMES), random.choice((0, 1, 1_000_000))
    records = []
    for number in range(count):
        key = random.choice((None, b"", b"key"))
        if has_large_keys:
            key = content(random, random.choice(sizes))
        value = content(random, size if is_alike else random.choice(sizes))
        records.append(
            Record(
                offset,
                time + number * step,
                TimestampType.CREATE,
                key,
                value if value or key else None,
                _headers(random, headers_max),
            )
        )
        offset += random.choice((1, 1, 1, 1, 3)) if number % 4 == 3 else 1
    return records


def _headers(random: Random, count_max: int) -> Headers:
    """Old clients do not get them."""
    values = (None, b"", b"v", bytes(random.choice(SIZES)))
    count = random.randint(0, count_max)
    return tuple((random.choice(("", "k", "key" * 9)), random.choice(values)) for _ in range(count))


def _far(random: Random, offset: int) -> list[Record]:
    """Bytes that zstd makes small, and gzip does not."""
    value = random.randbytes(FAR)
    return [Record(offset + n, n, TimestampType.CREATE, None, value) for n in range(6)]
