"""Where compressed messages begin and end, against a model: by LazyDownConvertRecords alone."""

import random
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from downconvert import ConversionPolicy, LazyDownConvertRecords
from records import BatchHeader, Codec, MemoryRecords, Record, build, read
from records.formats import MESSAGE_OVERHEAD
from records.units import KiB

from .channels import sent

# Bytes of the window over decompressed records: an eighth of a wrapper, within these bounds.
WINDOW_MIN, WINDOW_MAX = 128, 64 * KiB


def record(offset: int, size: int, *, noise: bool) -> Record:
    value = random.Random(offset).randbytes(size) if noise else b"-" * size
    return Record(offset=offset, timestamp=0, value=value)


def size_of(one: Record) -> int:
    """Bytes of a record in its batch."""
    value = len(one.value or b"")
    length = 6 + (value > 63) + (value > 8191) + (one.offset > 63) + (one.offset > 8191) + value
    return length + 1 + (length > 63) + (length > 8191)


def modelled(
    records: list[Record], to_magic: int, size_max: int, *, split_at_gaps: bool
) -> list[list[int]]:
    """The offsets in each entry that is sent. A large record shares its entry with no other."""
    window = min(WINDOW_MAX, max(WINDOW_MIN, size_max // 8))
    entries: list[list[int]] = []
    used, following = size_max, -1
    for one in records:
        message = MESSAGE_OVERHEAD[to_magic] + len(one.value or b"")
        is_large = size_of(one) > window or message > size_max
        is_gap = split_at_gaps and to_magic == 1 and one.offset != following
        if is_large or is_gap or used + message > size_max:
            entries.append([])
            used = 0
        entries[-1].append(one.offset)
        used = size_max if is_large else used + message
        following = one.offset + 1
    return entries


SIZES = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 140), st.integers(900, 1100), st.sampled_from([0, 94, 102, 121])),
        st.booleans(),
        st.sampled_from([1, 1, 1, 2]),
    ),
    min_size=1,
    max_size=40,
)


@given(
    SIZES,
    st.sampled_from([128, 155, 200, 300, 1024, 8 * KiB]),
    st.sampled_from([0, 1]),
    st.booleans(),
)
@example([(94, False, 1)] * 3, 128, 1, True)  # a message of a wrapper's size
@example([(95, False, 1)] * 3, 128, 1, True)  # larger than a wrapper, and fits the window
@example([(20, False, 1), (100, False, 1), (20, False, 1)], 128, 1, True)
@example([(60, True, 1)] * 5, 300, 0, True)
@example([(110, False, 1), *[(26, False, 1)] * 6], 200, 1, True)  # full without the next
def test_a_wrapper_ends_where_the_next_record_does_not_fit_or_does_not_follow(
    drawn: list[tuple[int, bool, int]], size_max: int, to_magic: int, split_at_gaps: bool
) -> None:
    records, offset = [], 0
    for size, noise, step in drawn:
        offset += step
        records.append(record(offset, size, noise=noise))
    log = MemoryRecords(build(records, magic=2, codec=Codec.GZIP, base_offset=0))
    policy = ConversionPolicy(wrapper_size_max=size_max, split_at_gaps=split_at_gaps)
    lazy = LazyDownConvertRecords(log, to_magic, 0, policy)
    response = MemoryRecords(sent(lazy.to_send()))
    assert response.size == lazy.size
    entries = [response.slice(header.position, header.size) for header in response.batches()]
    found = [[one.offset for one in read(entry)] for entry in entries]
    assert found == modelled(records, to_magic, size_max, split_at_gaps=split_at_gaps)
    assert [one.value for one in read(response)] == [one.value for one in records]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_a_large_record_is_compressed_alone_if_all_of_it_fits_a_wrapper(codec: str) -> None:
    """One byte of room less, and it is sent as it is."""
    one = record(0, 20_000, noise=True)
    log = MemoryRecords(build([one], magic=2, codec=Codec.GZIP))

    def entry(size_max: int) -> BatchHeader:
        policy = ConversionPolicy(wrapper_size_max=size_max, recode={"gzip": codec})
        response = MemoryRecords(sent(LazyDownConvertRecords(log, 1, 0, policy).to_send()))
        assert list(read(response)) == [one]
        return next(response.batches())

    compressed_size = entry(100_000).size - MESSAGE_OVERHEAD[1]
    assert entry(compressed_size).codec is Codec[codec.upper()]
    assert entry(compressed_size - 1).codec is Codec.NONE


@pytest.mark.parametrize("to_magic", [0, 1])
def test_a_large_record_that_does_not_fit_its_wrapper_is_not_compressed_to_its_end(
    to_magic: int,
) -> None:
    one = record(0, 3_000_000, noise=True)
    log = MemoryRecords(build([one], magic=2, codec=Codec.GZIP))
    lazy = LazyDownConvertRecords(log, to_magic, 0, ConversionPolicy(wrapper_size_max=50_000))
    send = lazy.to_send()

    class Discard:
        def write(self, data: memoryview) -> int:
            return len(data)

    tracemalloc.start()
    try:
        while not send.completed:
            send.write_to(Discard())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("count", [1, 3])
def test_a_large_plain_message_at_the_end_of_a_log_is_in_the_response(count: int) -> None:
    """The message is whole with its last piece, even if it is more than enough for a response."""
    records = [record(n, 700_000 if n == count - 1 else 10, noise=True) for n in range(count)]
    log = MemoryRecords(build(records, magic=2, codec=Codec.GZIP))
    lazy = LazyDownConvertRecords(log, 1, 0, ConversionPolicy(wrapper_size_max=50_000))
    response = MemoryRecords(sent(lazy.to_send()))
    assert list(read(response)) == records
    assert lazy.size == response.size
