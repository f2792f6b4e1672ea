"""The rules: batches that are kept, converted, dropped or refused, and their new codecs."""

from itertools import permutations

import pytest

from downconvert import AbortedTransaction, ConversionPolicy, convert, eager
from downconvert.conversion.rules import Rules
from records import (
    Codec,
    ControlRecordType,
    CorruptRecordsError,
    MemoryRecords,
    Record,
    TimestampType,
    UnsupportedCodecError,
    build,
    build_empty,
    build_marker,
    read,
)
from tests.damage import damaged

from .channels import until_error

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
OLD_CODECS = CODECS[:-1]
KAFKA = ConversionPolicy.kafka()


def some(first, count=3, step=1):
    return [
        Record(offset=first + step * i, timestamp=10 + i, key=b"k", value=b"v%d" % i)
        for i in range(count)
    ]


def batch(first, codec=Codec.NONE, magic=2, count=3, step=1, **fields):
    return build(some(first, count, step), magic=magic, codec=codec, **fields)


def converted(data, to_magic=1, first_offset=0, policy=None, aborted=()):
    policy = policy or ConversionPolicy()
    return MemoryRecords(
        eager(MemoryRecords(data), to_magic, first_offset, policy, aborted=aborted)
    )


def offsets(records):
    return [record.offset for record in read(records)]


def codecs(records):
    return [header.codec for header in records.batches()]


# --- verbatim, dropped, refused


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_an_entry_that_the_client_reads_is_copied_whatever_the_offset_asked_for(magic, codec):
    data = batch(10, codec, magic)
    assert b"".join(convert(MemoryRecords(data), 1, 12, KAFKA)) == data
    assert eager(MemoryRecords(data), 1, 12, ConversionPolicy(recode={})) == data


def test_a_mixed_log_gives_a_mixed_response():
    data = batch(0, magic=0) + batch(3, magic=1) + batch(6, magic=2)
    assert [header.magic for header in converted(data, 1).batches()] == [0] * 3 + [1] * 6


def test_control_batches_and_empty_ones_are_dropped():
    marker = build_marker(ControlRecordType.COMMIT, offset=3, timestamp=1, producer_id=1)
    data = batch(0) + marker + build_empty(base_offset=4, last_offset=9) + batch(10)
    assert offsets(converted(data)) == [0, 1, 2, 10, 11, 12]


def test_a_zstd_control_batch_is_dropped_and_not_refused():
    control = build(some(0, 1), magic=2, codec=Codec.ZSTD, control=True)
    assert offsets(converted(control + batch(1), policy=KAFKA)) == [1, 2, 3]


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_in_an_older_message_is_refused_before_it_is_damage(magic: int) -> None:
    """As in Kafka, the policy decides before the format of the message is checked."""
    message = damaged(batch(0, Codec.GZIP, magic=magic), field="attributes", to=int(Codec.ZSTD))
    with pytest.raises(UnsupportedCodecError):
        eager(MemoryRecords(message), magic, 0, KAFKA)
    with pytest.raises(CorruptRecordsError, match="codec does not exist"):
        eager(MemoryRecords(message), magic, 0, ConversionPolicy())


def test_kafka_refuses_zstd_after_everything_before_it():
    records = MemoryRecords(batch(0) + batch(3, Codec.ZSTD))
    good, error = until_error(convert(records, 1, 0, KAFKA))
    assert isinstance(error, UnsupportedCodecError)
    assert offsets(MemoryRecords(good)) == [0, 1, 2]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_codec_that_does_not_exist_is_damage(magic):
    data = bytearray(batch(0, Codec.GZIP, magic))
    data[22 if magic == 2 else 17] |= 7
    with pytest.raises(CorruptRecordsError, match="unknown codec, at byte 0"):
        converted(bytes(data))


# --- what the codec becomes


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_a_codec_that_the_client_reads_is_kept(codec):
    assert set(codecs(converted(batch(0, codec)))) == {codec}


@pytest.mark.parametrize("to_magic", [0, 1])
def test_zstd_becomes_gzip(to_magic):
    records = converted(batch(0, Codec.ZSTD), to_magic)
    assert codecs(records) == [Codec.GZIP]
    assert offsets(records) == [0, 1, 2]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_recoding_to_none_makes_uncompressed_messages(codec):
    policy = ConversionPolicy(recode={codec.name.lower(): "none"})
    records = converted(batch(0, codec), 1, 1, policy)
    assert codecs(records) == [Codec.NONE] * 2
    assert offsets(records) == [1, 2]


def test_lz4_of_v0_becomes_gzip_even_if_the_log_has_v0():
    records = converted(batch(0, Codec.LZ4, magic=0) + batch(3, Codec.LZ4), 0)
    assert codecs(records) == [Codec.GZIP] * 2
    assert offsets(records) == [0, 1, 2, 3, 4, 5]


def test_lz4_of_v1_stays():
    records = converted(batch(0, Codec.LZ4, magic=1) + batch(3, Codec.LZ4), 1)
    assert codecs(records) == [Codec.LZ4] * 2


@pytest.mark.parametrize(
    "recode",
    [
        {},
        {"lz4:magic0": "gzip"},
        {"lz4:magic1": "none", "gzip": "lz4", "zstd": "snappy"},
        {"snappy:magic0": "none", "snappy:magic1": "gzip", "zstd": "none", "lz4": "refuse"},
        {"gzip:magic1": "refuse", "zstd:magic0": "refuse", "zstd": "lz4"},
    ],
    ids=str,
)
@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("to_magic", [0, 1])
def test_the_codec_is_that_of_the_policy_for_the_format_of_the_messages(codec, to_magic, recode):
    """Entries of other formats may come before it in the same log."""
    policy = ConversionPolicy(recode=recode)
    magics = [2] if codec is Codec.ZSTD else [0, 1, 2]
    for order in permutations(magics):
        data = b"".join(batch(3 * n, codec, magic) for n, magic in enumerate(order))
        expected = []
        for magic in order:
            target_codec = policy.codec_for(codec, min(magic, to_magic))
            if target_codec is None:
                break
            expected += [target_codec] * (1 if target_codec else 3)
        good, error = until_error(convert(MemoryRecords(data), to_magic, 0, policy))
        assert codecs(MemoryRecords(good)) == expected
        assert isinstance(error, UnsupportedCodecError) == (target_codec is None)


@pytest.mark.parametrize(("magic", "to_magic"), [(0, 1), (1, 1), (0, 0), (1, 0)])
def test_the_codec_of_one_format_says_nothing_about_another_format(magic, to_magic):
    """Converted to the same format, a batch may have zstd, and an older message may not."""
    rules = Rules(ConversionPolicy(), to_magic)
    for _ in range(2):
        assert rules.codec_for(Codec.ZSTD, 2, 0) == (Codec.ZSTD, Codec.GZIP)
        with pytest.raises(CorruptRecordsError, match="does not exist in this message format"):
            rules.codec_for(Codec.ZSTD, magic, 7)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_in_an_older_message_is_damage_also_after_a_batch_that_may_have_it(magic):
    before, older = batch(0, Codec.ZSTD), bytearray(batch(3, Codec.GZIP, magic))
    older[17] = Codec.ZSTD
    for data in (bytes(older), before + older, before + older + before):
        good, error = until_error(convert(MemoryRecords(data), 1))
        assert offsets(MemoryRecords(good)) == [0, 1, 2][: data.startswith(before) * 3]
        assert isinstance(error, CorruptRecordsError)
        assert error.reason == "codec does not exist in this message format"
        assert error.position == data.index(older)


@pytest.mark.parametrize("kind", [TimestampType.CREATE, TimestampType.LOG_APPEND])
def test_a_v1_message_that_is_recoded_keeps_its_offsets_and_timestamps(kind):
    append_time = 555 if kind is TimestampType.LOG_APPEND else None
    data = batch(100, Codec.LZ4, 1, 5, step=3, timestamp_type=kind, append_time=append_time)
    policy = ConversionPolicy(recode={"lz4": "snappy"})
    records = converted(data, 1, 0, policy)
    assert set(codecs(records)) == {Codec.SNAPPY}
    assert list(read(records)) == list(read(MemoryRecords(data)))


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_v2_to_v1_to_v0_is_v2_to_v0(codec):
    policy = ConversionPolicy(recode={}, split_at_gaps=False)
    data = batch(7, codec, count=5, step=2)
    once = converted(data, 0, 0, policy)
    twice = converted(eager(MemoryRecords(data), 1, 0, policy), 0, 0, policy)
    assert list(read(twice)) == list(read(once))
    assert codecs(twice) == codecs(once)


# --- what the offset asked for cuts, and gaps


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("to_magic", [0, 1])
def test_the_first_record_is_at_the_fetch_offset(codec, to_magic):
    data = batch(0, codec) + batch(3, codec)
    assert offsets(converted(data, to_magic, 4)) == [4, 5]


@pytest.mark.parametrize("codec", CODECS[1:4])
def test_kafka_does_not_cut_compressed_batches(codec):
    data = batch(0, codec) + batch(3, codec)
    assert offsets(converted(data, 1, 4, KAFKA)) == [0, 1, 2, 3, 4, 5]


def test_a_v1_message_has_no_gaps_inside():
    data = build(
        [Record(offset=offset, timestamp=offset, value=b"v") for offset in (1, 2, 5, 6, 7, 100)],
        magic=2,
        codec=Codec.GZIP,
    )
    records = converted(data)
    assert [header.last_offset for header in records.batches()] == [2, 7, 100]
    assert offsets(records) == [1, 2, 5, 6, 7, 100]
    assert [header.last_offset for header in converted(data, 0).batches()] == [100]
    assert [header.last_offset for header in converted(data, 1, 0, KAFKA).batches()] == [100]


def test_a_wrapper_has_the_largest_inner_timestamp_and_not_the_batchs():
    data = bytearray(batch(0, Codec.GZIP))
    data[35:43] = (99_999).to_bytes(8)  # what compaction may leave
    (header,) = converted(bytes(data)).batches()
    assert header.max_timestamp == 12


# --- aborted transactions


def transactional(first, producer, codec=Codec.NONE):
    return batch(
        first, codec, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
    )


def end(kind, offset, producer):
    return build_marker(kind, offset=offset, timestamp=1, producer_id=producer)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("last_offset", [None, 7])
def test_aborted_data_is_left_out_if_transactions_are_passed_in(codec, last_offset):
    data = (
        transactional(0, 1, codec)
        + transactional(3, 2, codec)
        + end(ControlRecordType.ABORT, 6, 1)
        + end(ControlRecordType.COMMIT, 7, 2)
        + transactional(8, 1, codec)
        + end(ControlRecordType.COMMIT, 11, 1)
        + batch(12, codec)
    )
    aborted = [AbortedTransaction(1, 0, None if last_offset is None else 6)]
    committed = ConversionPolicy(isolation="read_committed")
    assert offsets(converted(data, 1, 0, committed, aborted=aborted)) == [
        3,
        4,
        5,
        8,
        9,
        10,
        12,
        13,
        14,
    ]
    assert offsets(converted(data)) == [0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 13, 14]
