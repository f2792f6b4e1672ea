"""A batch that is compressed record by record equals one built from all records."""

from dataclasses import replace
from random import Random

import pytest

from records import Codec, MemoryRecords, Record, RecordTooLargeError, build, read
from records.batches.batch_stream import CHUNK, BatchStream
from records.formats import TimestampType
from records.units import GiB

PRODUCER = (7, 1, 5)


def made_up(random: Random, count: int, size_max: int) -> list[Record]:
    def field() -> bytes | None:
        if random.random() < 0.1:
            return None
        return random.randbytes(5) * random.randrange(size_max // 5)

    return [
        Record(
            number,
            1000 + random.randrange(-500, 500),
            key=field(),
            value=field(),
            headers=(("h", field()), ("ü", b"")) if random.random() < 0.3 else (),
        )
        for number in range(count)
    ]


def streamed(
    records: list[Record], codec: Codec, append_time: int | None = None, size_max: int = GiB
) -> bytes:
    stream = BatchStream(
        codec,
        append_time=append_time,
        producer=PRODUCER,
        transactional=True,
        compression_level="kafka",
        size_max=size_max,
    )
    for record in records:
        stream.add(record)
    return stream.finish()


@pytest.mark.parametrize("append_time", [None, 5000])
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(("count", "size"), [(1, 10), (500, 100), (40, 20_000), (3, 2 * CHUNK)])
def test_a_streamed_batch_equals_one_built_at_once(
    codec: Codec, append_time: int | None, count: int, size: int
) -> None:
    records = made_up(Random(count), count, size)
    kind = TimestampType.CREATE if append_time is None else TimestampType.LOG_APPEND
    at_once = build(
        [replace(one, timestamp=append_time or one.timestamp) for one in records],
        magic=2,
        codec=codec,
        timestamp_type=kind,
        append_time=append_time,
        producer_id=PRODUCER[0],
        producer_epoch=PRODUCER[1],
        base_sequence=PRODUCER[2],
        transactional=True,
    )
    found, expected = MemoryRecords(streamed(records, codec, append_time)), MemoryRecords(at_once)
    assert list(read(found)) == list(read(expected))
    (one,), (other,) = found.batches(), expected.batches()
    for name in ("base_offset", "last_offset", "base_timestamp", "max_timestamp", "attributes"):
        assert getattr(one, name) == getattr(other, name), name
    if codec is Codec.NONE:
        assert one.size == other.size


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_that_grows_too_large_is_refused_before_it_is_complete(codec: Codec) -> None:
    records = [Record(n, 0, value=Random(n).randbytes(1000)) for n in range(2000)]
    with pytest.raises(RecordTooLargeError):
        streamed(records, codec, size_max=100_000)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_small_and_large_records_keep_their_order_and_times(codec: Codec) -> None:
    """The last one is not the youngest; the youngest is a large one."""
    sizes = (10, CHUNK + 1, 20, 30, CHUNK + 2, CHUNK, 40)
    times = (5, 9, 7, 6, 3, 2, 1)
    records = [
        Record(n, time, key=b"%d" % n, value=bytes(size))
        for n, (size, time) in enumerate(zip(sizes, times, strict=True))
    ]
    data = streamed(records, codec)
    found = list(read(MemoryRecords(data)))
    assert [(one.offset, one.timestamp, one.key) for one in found] == [
        (one.offset, one.timestamp, one.key) for one in records
    ]
    assert [len(one.value or b"") for one in found] == list(sizes)
    assert next(MemoryRecords(data).batches()).max_timestamp == 9


def test_a_batch_of_exactly_the_largest_size_is_built() -> None:
    records = [Record(n, 0, value=bytes(100)) for n in range(10)]
    size = len(streamed(records, Codec.NONE))
    assert len(streamed(records, Codec.NONE, size_max=size)) == size
    with pytest.raises(RecordTooLargeError) as error:
        streamed(records, Codec.NONE, size_max=size - 1)
    assert (error.value.size, error.value.limit) == (size, size - 1)


def test_records_without_a_timestamp_make_a_batch_without_one() -> None:
    records = [Record(n, -1, value=b"v", headers=(("\udcff", b"no text"),)) for n in range(3)]
    data = streamed(records, Codec.NONE)
    assert next(MemoryRecords(data).batches()).max_timestamp == -1
    assert [one.headers for one in read(MemoryRecords(data))] == [one.headers for one in records]
