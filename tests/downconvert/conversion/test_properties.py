"""Properties of every conversion, whatever is in the log.

The default policy loses nothing, repeats nothing and makes nothing up; every policy promises a size
and keeps it; and other people's readers find the same records as ours."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords, eager
from records import Codec, MemoryRecords, Record, TimestampType, build, read
from records.batches.control import ControlRecordType
from records.formats import NO_TIMESTAMP, V0, V1, V2
from records.units import KiB
from tests import backends
from tests.other_readers import OTHER_READERS, OtherReader, as_others_tell
from tests.strategies import TODAY, Segment, segments

from .channels import Everything, OneByte, RandomSizes, sent
from .comparable import comparable
from .fetching import fetched
from .ways import in_both_ways

ENOUGH: Final = 1_000  # bytes
TARGETS: Final = st.sampled_from([V1, V0])
CHUNK_SIZES: Final = st.sampled_from([16 * KiB, 128, KiB, 128 * KiB])

# Policies that lose nothing. All of them send exactly what they promise.
FAITHFUL: Final = st.builds(
    ConversionPolicy,
    chunk_size=CHUNK_SIZES,
    recode=st.one_of(
        st.builds(lambda: ConversionPolicy().recode),
        st.fixed_dictionaries(
            {"zstd": st.sampled_from(["gzip", "none", "snappy"])},
            optional={
                "lz4": st.sampled_from(["gzip", "none"]),
                "gzip": st.sampled_from(["snappy", "lz4"]),
                "snappy:magic0": st.just("gzip"),
            },
        ),
    ),
    trim_compressed=st.booleans(),
    split_at_gaps=st.booleans(),
    wrapper_size_max=st.sampled_from([1024 * KiB, 128 * KiB, None]),
    compression_level=st.sampled_from(["fast", "kafka"]),
)
ESTIMATING: Final = st.builds(
    lambda policy, kafka: ConversionPolicy.kafka() if kafka else replace(policy, size="estimate"),
    FAITHFUL,
    st.booleans(),
)


@st.composite
def conversions(
    draw: st.DrawFn, codecs: tuple[Codec, ...] = tuple(Codec)
) -> tuple[Segment, int, int]:
    """A log, the format to convert it to, and the offset to begin at: of a record, or between."""
    log = draw(segments(codecs=codecs))
    offsets = [record.offset for record in log.records] or [0]
    return log, draw(TARGETS), draw(st.sampled_from(offsets)) + draw(st.sampled_from([0, 1, -1]))


def eagerly(data: bytes, to_magic: int, *arguments: Any, **options: Any) -> bytes:
    return eager(MemoryRecords(data), to_magic, *arguments, **options)


def found(converted: bytes) -> list[Record]:
    return list(read(MemoryRecords(converted)))


def expected(log: Segment, to_magic: int) -> Iterator[Record]:
    """The records that a client of `to_magic` must find, from the log's beginning."""
    for batch in log.batches:
        for record in batch.records if not batch.is_control else ():
            yield record if batch.magic <= to_magic else downgraded(record, to_magic)


def downgraded(record: Record, to_magic: int) -> Record:
    record = replace(record, headers=(), sequence=-1)
    if to_magic == V1:
        return record
    return replace(record, timestamp=NO_TIMESTAMP, timestamp_type=TimestampType.NONE)


def from_offset(records: Iterable[Record], first_offset: int) -> list[Record]:
    return [record for record in records if record.offset >= first_offset]


# --- nothing is lost, repeated or made up


@given(conversions(), FAITHFUL)
@in_both_ways
def test_every_record_comes_through_once_in_order_and_unchanged(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy
) -> None:
    log, to_magic, first_offset = conversion
    records = found(eagerly(log.data, to_magic, first_offset, policy))
    assert from_offset(records, first_offset) == from_offset(expected(log, to_magic), first_offset)
    assert all(before.offset < after.offset for before, after in pairwise(records))


@given(conversions())
@in_both_ways
def test_by_default_nothing_that_is_converted_begins_before_the_offset_asked_for(
    conversion: tuple[Segment, int, int],
) -> None:
    log, to_magic, first_offset = conversion
    early = found(eagerly(log.data, to_magic, first_offset))
    copied = [r for batch in log.batches if batch.magic <= to_magic for r in batch.records]
    assert [r for r in early if r.offset < first_offset and r not in copied] == []


@given(conversions(), FAITHFUL)
@in_both_ways
def test_every_byte_is_of_a_message_that_the_client_reads(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy
) -> None:
    log, to_magic, first_offset = conversion
    converted = eagerly(log.data, to_magic, first_offset, policy)
    headers = list(MemoryRecords(converted).batches())
    assert sum(header.size for header in headers) == len(converted)
    assert all(header.magic <= to_magic for header in headers)


@given(conversions(codecs=tuple(Codec)[1:]))
@in_both_ways
def test_by_default_compressed_messages_of_v1_have_no_gaps(
    conversion: tuple[Segment, int, int],
) -> None:
    log, _, first_offset = conversion
    converted = eagerly(log.data, V1, first_offset)
    copied = {batch.last_offset for batch in log.batches if batch.magic < V2}
    records = MemoryRecords(converted)
    for header in records.batches():
        if header.magic == V1 and header.last_offset not in copied:
            inside = found(converted[header.position : header.position + header.size])
            assert all(a.offset + 1 == b.offset for a, b in pairwise(inside))


@given(conversions(), st.booleans())
@in_both_ways
def test_codecs_are_those_that_the_policy_says(
    conversion: tuple[Segment, int, int], lz4_too: bool
) -> None:
    log, to_magic, _ = conversion
    recode = {"zstd": "gzip"} | ({"lz4": "none"} if lz4_too else {})
    converted = eagerly(log.data, to_magic, 0, ConversionPolicy(recode=recode))
    codecs = {header.codec for header in MemoryRecords(converted).batches()}
    gone = {Codec.ZSTD} | ({Codec.LZ4} if lz4_too else set())
    assert not codecs & gone


# --- sizes and sends


@given(conversions(), FAITHFUL)
@in_both_ways
def test_an_exact_send_is_the_eager_conversion_and_as_long_as_promised(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy
) -> None:
    """Records that are left to the next fetch are not compared."""
    log, to_magic, first_offset = conversion
    lazy = LazyDownConvertRecords(MemoryRecords(log.data), to_magic, first_offset, policy)
    send = lazy.to_send()
    written = sent(send)
    assert (send.size, send.stats.bytes_out, send.remaining) == (lazy.size,) * 2 + (0,)
    assert len(written) == lazy.size
    assert send.stats.filler_bytes == 0
    whole = eagerly(log.data, to_magic, first_offset, policy)
    assert whole.startswith(written)
    assert written == whole or not lazy.is_whole
    assert written or not whole


@given(conversions(), FAITHFUL)
@in_both_ways
def test_where_the_next_fetch_cannot_begin_inside_a_batch_everything_is_in_one_response(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy
) -> None:
    log, to_magic, first_offset = conversion
    policy = replace(policy, trim_compressed=False)
    lazy = LazyDownConvertRecords(MemoryRecords(log.data), to_magic, first_offset, policy)
    assert lazy.is_whole
    send = lazy.to_send()
    assert sent(send) == eagerly(log.data, to_magic, first_offset, policy)


@given(conversions(), ESTIMATING)
@in_both_ways
def test_an_estimated_send_is_as_long_as_promised_and_ends_with_nothing_but_filler(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy
) -> None:
    log, to_magic, first_offset = conversion
    if policy.recode.get("zstd") == "refuse":
        log = without_zstd(log)
    lazy = LazyDownConvertRecords(MemoryRecords(log.data), to_magic, first_offset, policy)
    send = lazy.to_send()
    written = sent(send)
    assert len(written) == lazy.size
    messages = len(written) - send.stats.filler_bytes
    exact = replace(policy, size="exact")
    whole = eagerly(log.data, to_magic, first_offset, exact)
    assert written[:messages] == whole[:messages]
    assert messages in (len(whole), lazy.size)


def without_zstd(log: Segment) -> Segment:
    kept = tuple(batch for batch in log.batches if batch.codec is not Codec.ZSTD)
    return replace(log, batches=kept)


@given(conversions(), FAITHFUL | ESTIMATING, st.sampled_from([OneByte, RandomSizes]))
@in_both_ways
def test_a_send_gives_the_same_bytes_however_the_channel_takes_them(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy, channel: type[Everything]
) -> None:
    log, to_magic, first_offset = conversion
    log = without_zstd(log)
    lazy = LazyDownConvertRecords(MemoryRecords(log.data), to_magic, first_offset, policy)
    assert sent(lazy.to_send(), channel()) == sent(lazy.to_send())


def test_a_copied_message_that_fits_no_chunk_does_not_let_the_next_one_through() -> None:
    large = build([Record(0, TODAY, value=bytes(range(256)))], magic=V1, codec=Codec.LZ4)
    unreadable = build([Record(1, TODAY, value=b"v")], magic=V0, codec=Codec.LZ4)
    converted = eagerly(large + unreadable, V1, 0, ConversionPolicy(chunk_size=128))
    codecs = [header.codec for header in MemoryRecords(converted).batches()]
    assert codecs == [Codec.LZ4, Codec.GZIP]


@pytest.mark.parametrize("magic", [V1, V2])
def test_a_record_that_fits_no_chunk_comes_out_of_a_small_compressed_batch(magic: int) -> None:
    """It is whole in memory, and its message still has no room in what is sent at a time."""
    batch = build([Record(0, TODAY, value=bytes(5000))], magic=magic, codec=Codec.LZ4)
    policy = ConversionPolicy(chunk_size=128, recode={"lz4": "none"})
    lazy = LazyDownConvertRecords(MemoryRecords(batch), V0, 0, policy)
    assert [record.value for record in found(sent(lazy.to_send()))] == [bytes(5000)]


@given(conversions(), FAITHFUL, CHUNK_SIZES)
@in_both_ways
def test_the_size_of_chunks_changes_nothing_but_how_well_bytes_are_compressed(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy, chunk_size: int
) -> None:
    """Unless batches may be divided: then a record that is larger than a chunk has a compressed
    message of its own."""
    log, to_magic, first_offset = conversion
    policy = replace(policy, wrapper_size_max=None)
    other = replace(policy, chunk_size=chunk_size)
    ours = eagerly(log.data, to_magic, first_offset, policy)
    others = eagerly(log.data, to_magic, first_offset, other)
    assert list(comparable(ours)) == list(comparable(others))


@given(conversions(codecs=(Codec.NONE,)), FAITHFUL, CHUNK_SIZES)
@in_both_ways
def test_the_size_of_chunks_changes_no_byte_of_what_is_not_compressed(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy, chunk_size: int
) -> None:
    log, to_magic, first_offset = conversion
    other = replace(policy, chunk_size=chunk_size)
    ours = eagerly(log.data, to_magic, first_offset, policy)
    assert ours == eagerly(log.data, to_magic, first_offset, other)


@given(conversions(), FAITHFUL)
@in_both_ways
def test_fetch_after_fetch_brings_every_record_once(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy
) -> None:
    log, to_magic, first_offset = conversion
    records = fetched(log.data, to_magic, first_offset, policy)
    assert from_offset(records, first_offset) == from_offset(expected(log, to_magic), first_offset)


# --- one conversion is another


@given(segments(codecs=(Codec.NONE,)))
@in_both_ways
def test_uncompressed_v2_to_v1_to_v0_is_v2_to_v0_byte_for_byte(log: Segment) -> None:
    assert eagerly(eagerly(log.data, V1), V0) == eagerly(log.data, V0)


@given(segments(), FAITHFUL)
@in_both_ways
def test_v2_to_v1_to_v0_is_v2_to_v0_record_for_record(
    log: Segment, policy: ConversionPolicy
) -> None:
    through_v1 = eagerly(eagerly(log.data, V1, 0, policy), V0, 0, policy)
    assert found(through_v1) == found(eagerly(log.data, V0, 0, policy))


@given(segments(), TARGETS, FAITHFUL)
@in_both_ways
def test_converted_records_need_no_more_conversion(
    log: Segment, to_magic: int, policy: ConversionPolicy
) -> None:
    converted = eagerly(log.data, to_magic, 0, policy)
    again = replace(policy, recode={"zstd": "gzip"})
    assert eagerly(converted, to_magic, 0, again) == converted


@pytest.mark.each_kernel
@given(conversions(), FAITHFUL | ESTIMATING)
@in_both_ways
def test_both_kernels_convert_to_the_same_bytes_and_count_the_same(
    conversion: tuple[Segment, int, int], policy: ConversionPolicy
) -> None:
    """Where they compress, messages are compared inside: their compressors find other matches."""
    log, to_magic, first_offset = conversion
    log = without_zstd(log)
    is_compressed = any(batch.codec for batch in log.batches)
    outcomes: list[Any] = []
    for name in backends.NAMES:
        with backends.running_on(name):
            if is_compressed:
                whole = eagerly(log.data, to_magic, first_offset, policy)
                outcomes.append(list(comparable(whole)))
                continue
            lazy = LazyDownConvertRecords(MemoryRecords(log.data), to_magic, first_offset, policy)
            send = lazy.to_send()
            written = sent(send)
            outcomes.append((written, replace(send.stats, seconds_converting=0)))
    assert all(outcome == outcomes[0] for outcome in outcomes)


# --- transactions


@given(segments(), TARGETS, FAITHFUL, st.data())
@in_both_ways
def test_read_committed_leaves_out_what_was_aborted_and_nothing_else(
    log: Segment, to_magic: int, policy: ConversionPolicy, data: st.DataObject
) -> None:
    last = max((batch.last_offset for batch in log.batches), default=0)
    first = min((record.offset for record in log.records), default=0)
    aborted = data.draw(
        st.lists(
            st.builds(AbortedTransaction, st.sampled_from([1, 2]), st.integers(first, last)),
            max_size=3,
            unique_by=lambda transaction: transaction.producer_id,
        )
    )
    policy = replace(policy, isolation="read_committed")
    kept = Segment(tuple(committed(log, aborted)))
    assert found(eagerly(log.data, to_magic, 0, policy, aborted=aborted)) == list(
        expected(kept, to_magic)
    )


def committed(log: Segment, aborted: list[AbortedTransaction]) -> Iterator[Any]:
    """The batches that a consumer is given, as Kafka's own consumers find out."""
    begun = {transaction.producer_id: transaction.first_offset for transaction in aborted}
    for batch in log.batches:
        begins = begun.get(batch.producer_id)
        if batch.control_type is ControlRecordType.ABORT:
            if begins is not None and begins <= batch.last_offset:
                del begun[batch.producer_id]
        elif not batch.is_transactional or begins is None or begins > batch.last_offset:
            yield batch


# --- other people's readers


@pytest.mark.parametrize("reader", OTHER_READERS, ids=attrgetter("name"))
@given(data=st.data(), to_magic=TARGETS)
@in_both_ways
def test_other_readers_find_the_same_records(
    reader: OtherReader, data: st.DataObject, to_magic: int
) -> None:
    log = data.draw(segments(codecs=reader.codecs))
    converted = eagerly(log.data, to_magic)
    assert reader.read(converted) == list(map(as_others_tell, expected(log, to_magic)))
