"""A producer's records are checked before they are appended, without a broker around it."""

from dataclasses import replace
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.topic_configs import append_config
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.serving.append_config import AppendConfig
from downconvert.serving.appending import prepare, prepare_own
from downconvert.serving.record_checks import RefusedRecordsError
from downconvert.serving.up_conversion import EXPANSION_MAX, RECORD_OVERHEAD
from records import Codec, MemoryRecords, Record, TimestampType, build, read
from records.checksum import verify_checksum
from records.codecs import open_encoder
from records.formats import BATCH_HEADER_SIZE, LOG_APPEND_TIME, V0, V1, V2
from records.varint import varint
from tests.damage import damaged, repaired, spliced

NOW = 1_700_000_000_000
HOUR = 3_600_000
CREATE, LOG_APPEND = TimestampType.CREATE, TimestampType.LOG_APPEND
CONFIG = append_config({}, BrokerConfig())
RECORDS = [Record(i, NOW + i, CREATE, b"k%d" % i, b"v") for i in range(4)]
MEGABYTE = 1024 * 1024


def refusal(data: bytes, config: AppendConfig = CONFIG) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        prepare(memoryview(data), config, NOW)
    return caught.value.code


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_the_topic_s_format_stays_as_it_is(codec: Codec) -> None:
    data = build(RECORDS, magic=V2, codec=codec)
    prepared = prepare(memoryview(data), CONFIG, NOW)
    assert prepared is not None
    assert not prepared.is_converted
    placed = bytes(prepared.place(2**40, 7)[0])
    assert placed == (2**40).to_bytes(8) + data[8:12] + (7).to_bytes(4) + data[16:]


@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_the_headers_of_placed_batches_are_those_that_a_reader_finds(magic: int) -> None:
    prepared = prepare(memoryview(build(RECORDS, magic=V2)), replace(CONFIG, magic=magic), NOW)
    assert prepared is not None
    placed, headers = prepared.place(2**40, 7)
    assert headers is not None
    assert headers == list(MemoryRecords(placed).batches())
    for header in headers:
        verify_checksum(MemoryRecords(placed), header)


@pytest.mark.parametrize("codec", Codec)
def test_append_time_is_all_that_changes(codec: Codec) -> None:
    config = replace(CONFIG, is_append_time=True)
    data = build(RECORDS, magic=V2, codec=codec)
    prepared = prepare(memoryview(data), config, NOW + 50)
    assert prepared is not None
    records = MemoryRecords(prepared.place(5, 0)[0])
    (header,) = records.batches()
    verify_checksum(records, header)
    assert header.size == len(data)
    assert prepared.log_append_time == NOW + 50
    assert {(r.timestamp, r.timestamp_type) for r in read(records)} == {(NOW + 50, LOG_APPEND)}


def test_a_header_that_lies_about_its_latest_timestamp_is_put_right() -> None:
    data = damaged(build(RECORDS, magic=V2), field="max_timestamp", to=5)
    prepared = prepare(memoryview(data), CONFIG, NOW)
    assert prepared is not None
    records = MemoryRecords(prepared.place(0, 0)[0])
    (header,) = records.batches()
    verify_checksum(records, header)
    assert header.max_timestamp == NOW + 3


@pytest.mark.parametrize("codec", Codec)
def test_offsets_with_gaps_are_closed(codec: Codec) -> None:
    gaps = [RECORDS[0], replace(RECORDS[1], offset=3), replace(RECORDS[2], offset=9)]
    data = damaged(build(gaps, magic=V2, codec=codec), field="last_offset_delta", to=2)
    prepared = prepare(memoryview(data), CONFIG, NOW)
    assert prepared is not None
    found = list(read(MemoryRecords(prepared.place(10, 0)[0])))
    assert [record.offset for record in found] == [10, 11, 12]
    assert [record.key for record in found] == [b"k0", b"k1", b"k2"]


@pytest.mark.parametrize(
    ("field", "to", "expected"),
    [
        ("crc", 1, ErrorCode.CORRUPT_MESSAGE),
        ("magic", 3, ErrorCode.CORRUPT_MESSAGE),
        ("size", 13, ErrorCode.CORRUPT_MESSAGE),
        ("base_offset", 1, ErrorCode.INVALID_RECORD),
        ("last_offset_delta", 4, ErrorCode.INVALID_RECORD),
        ("last_offset_delta", 2**31 - 1, ErrorCode.INVALID_RECORD),
        ("records_count", 5, ErrorCode.INVALID_RECORD),
        ("records_count", 0, ErrorCode.INVALID_RECORD),
        ("records_count", -1, ErrorCode.INVALID_RECORD),
        ("attributes", 0x20, ErrorCode.INVALID_RECORD),
        ("attributes", 0x10, ErrorCode.INVALID_RECORD),
        ("producer_id", 5, ErrorCode.INVALID_RECORD),  # which has no sequence number
    ],
)
def test_a_header_that_cannot_be(field: str, to: int, expected: ErrorCode) -> None:
    assert refusal(damaged(build(RECORDS, magic=V2), field=field, to=to)) is expected


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_an_older_topic_has_no_producers_with_ids(
    magic: int, transactional: bool, codec: Codec
) -> None:
    """Their records would lose the id, and with it what tells duplicates."""
    data = bytes(
        build(
            RECORDS,
            magic=V2,
            codec=codec,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
    )
    older = replace(CONFIG, magic=magic)
    assert refusal(data, older) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert prepare(memoryview(data), CONFIG, NOW) is not None
    assert prepare(memoryview(build(RECORDS, magic=V2, codec=codec)), older, NOW) is not None


@pytest.mark.parametrize("codec", Codec)
def test_invalid_records_are_refused(codec: Codec) -> None:
    data = build(RECORDS, magic=V2, codec=codec)
    body = slice(BATCH_HEADER_SIZE, len(data))
    garbage = repaired(spliced(data, body.start, b"\xff" * 8, drop=8))
    assert refusal(garbage) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [V0, V1, V2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_keys_and_times_as_the_topic_wants_them(magic: int, codec: Codec) -> None:
    compacted = replace(CONFIG, is_compacted=True)
    missing = [RECORDS[0], replace(RECORDS[1], key=None), replace(RECORDS[2], key=b"")]
    with pytest.raises(RefusedRecordsError) as caught:
        prepare(memoryview(build(missing, magic=magic, codec=codec)), compacted, NOW)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.records] == [1]
    narrow = replace(CONFIG, before_max=HOUR, after_max=HOUR)
    for timestamp in (NOW - HOUR - 1, NOW + HOUR + 1):
        late = [RECORDS[0], replace(RECORDS[1], timestamp=timestamp)]
        data = memoryview(build(late, magic=magic, codec=codec))
        if magic == V0:
            assert prepare(data, narrow, NOW) is not None
            continue
        with pytest.raises(RefusedRecordsError) as caught:
            prepare(data, narrow, NOW)
        assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
        assert [index for index, _ in caught.value.records] == [1]
        assert prepare(data, replace(narrow, is_append_time=True), NOW) is not None


@pytest.mark.parametrize("magic", [V1, V2])
@pytest.mark.parametrize("size", [1, 600_000])
def test_a_record_is_refused_in_whatever_way_its_batch_is_rewritten(magic: int, size: int) -> None:
    """Small batches are rewritten at once, batches that expand to much record by record."""
    config = replace(CONFIG, codec=Codec.LZ4, is_compacted=True, magic=magic, before_max=HOUR)
    values = [bytes(size), b"v", bytes(size)]
    good = [Record(i, NOW + i, CREATE, b"k", value) for i, value in enumerate(values)]
    for index in range(3):
        for change, code in (
            ({"key": None}, ErrorCode.INVALID_RECORD),
            ({"timestamp": NOW - HOUR - 1}, ErrorCode.INVALID_TIMESTAMP),
        ):
            records = [replace(one, **change) if one.offset == index else one for one in good]  # type: ignore[arg-type]
            data = build(records, magic=V2, codec=Codec.GZIP)
            with pytest.raises(RefusedRecordsError) as caught:
                prepare(memoryview(data), config, NOW)
            assert caught.value.code is code
            assert [at for at, _ in caught.value.records] == [index]
    assert prepare(memoryview(build(good, magic=V2, codec=Codec.GZIP)), config, NOW) is not None


DAY = 24 * HOUR


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("magic", [V1, V2])
@pytest.mark.parametrize(("before", "after"), [(DAY, HOUR), (HOUR, DAY)])
def test_records_before_now_and_after_it_have_limits_of_their_own(
    before: int, after: int, magic: int, codec: Codec
) -> None:
    """Whether the records are rewritten or not, and whether or not another record is late."""
    config = replace(CONFIG, before_max=before, after_max=after)
    for timestamp, is_taken in [
        (NOW - before, True),
        (NOW - before - 1, False),
        (NOW + after, True),
        (NOW + after + 1, False),
    ]:
        records = [replace(RECORDS[0], timestamp=NOW), replace(RECORDS[1], timestamp=timestamp)]
        data = memoryview(build(records, magic=magic, codec=codec))
        if is_taken:
            assert prepare(data, config, NOW) is not None
            continue
        with pytest.raises(RefusedRecordsError) as caught:
            prepare(data, config, NOW)
        assert [index for index, _ in caught.value.records] == [1]


LATE = NOW + HOUR + 1
TIMES = [  # the producer's kind of timestamp, its timestamp, by the topic's kind: is it taken?
    (CREATE, NOW, True, True),
    (CREATE, -1, True, True),
    (CREATE, -2, False, False),
    (CREATE, LATE, False, True),
    (LOG_APPEND, NOW, True, False),
    (LOG_APPEND, -1, False, False),
    (LOG_APPEND, -2, False, False),
    (LOG_APPEND, LATE, False, False),
]


@pytest.mark.parametrize(("kind", "timestamp", "is_taken", "is_taken_at_append"), TIMES)
@pytest.mark.parametrize("target", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("is_append_time", [False, True])
def test_the_kind_of_a_timestamp_counts_where_its_value_does_not(
    kind: TimestampType,
    timestamp: int,
    is_taken: bool,
    is_taken_at_append: bool,
    target: Codec,
    is_append_time: bool,
) -> None:
    """As in Kafka: a topic that keeps the producer's timestamps looks at them first."""
    config = replace(
        CONFIG, is_append_time=is_append_time, before_max=HOUR, after_max=HOUR, codec=target
    )
    attributes = LOG_APPEND_TIME if kind is LOG_APPEND else 0
    plain = build([Record(0, max(timestamp, 0), CREATE, b"k", b"v")], magic=V2)
    base = damaged(plain, field="base_timestamp", to=timestamp)
    data = damaged(base, field="attributes", to=attributes)
    if not (is_taken_at_append if is_append_time else is_taken):
        assert refusal(data, config) is ErrorCode.INVALID_TIMESTAMP
        return
    prepared = prepare(memoryview(data), config, NOW)
    assert prepared is not None
    (record,) = read(MemoryRecords(prepared.place(0, 0)[0]))
    taken = (NOW, LOG_APPEND) if is_append_time else (timestamp, CREATE)
    assert (record.timestamp, record.timestamp_type) == taken


def test_batches_larger_than_the_topics_limit_are_refused_before_and_after_conversion() -> None:
    config = replace(CONFIG, message_size_max=300)
    large = [replace(record, value=b"x" * 100) for record in RECORDS]
    too_large = ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(build(large, magic=V2), config) is too_large
    assert refusal(build(large, magic=V1), config) is too_large
    small = memoryview(build(large, magic=V2, codec=Codec.GZIP))
    assert prepare(small, config, NOW) is not None
    assert refusal(bytes(small), replace(config, codec=Codec.NONE)) is too_large


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("target", [None, Codec.NONE])
def test_a_bomb_is_looked_at_without_its_memory(codec: Codec, target: Codec | None) -> None:
    """150 MB of one record, in a batch that is small enough."""
    encoder = open_encoder(codec, magic=V2, compression_level="fast")
    body = encoder.write(varint(150 * MEGABYTE) + b"\0\0\0\x01" + varint(150 * MEGABYTE - 20))
    zeros = bytes(MEGABYTE)
    body += b"".join(encoder.write(zeros) for _ in range(150)) + encoder.finish()
    whole = build(RECORDS[:1], magic=V2, codec=codec)
    size = Struct(">i").pack(BATCH_HEADER_SIZE - 12 + len(body))
    data = repaired(whole[:8] + size + whole[12:BATCH_HEADER_SIZE] + body)
    assert len(data) < CONFIG.message_size_max
    # The peak of the process is forgotten first: that of an earlier test would hide this one's.
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_kibibytes()
    assert refusal(data, replace(CONFIG, codec=target)) is ErrorCode.MESSAGE_TOO_LARGE
    assert peak_kibibytes() - before < 80 * 1024


def peak_kibibytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize(("excess", "is_taken"), [(0, True), (1, False)])
@pytest.mark.parametrize("counted", ["keys", "values"])
def test_many_small_records_expand_to_no_more_than_one_large_one_may(
    excess: int, is_taken: bool, counted: str
) -> None:
    config = replace(CONFIG, codec=Codec.LZ4, message_size_max=2000)
    limit, size = EXPANSION_MAX * config.message_size_max, 1000 - RECORD_OVERHEAD
    sizes = [size] * (limit // 1000 - 1) + [size + excess]
    of_keys = counted == "keys"
    records = [
        Record(i, NOW, CREATE, bytes(size) if of_keys else None, None if of_keys else bytes(size))
        for i, size in enumerate(sizes)
    ]
    data = build(records, magic=V2, codec=Codec.GZIP)
    assert len(data) < config.message_size_max
    if is_taken:
        prepared = prepare(memoryview(data), config, NOW)
        assert prepared is not None
        assert prepared.records_count == len(sizes)
    else:
        assert refusal(data, config) is ErrorCode.MESSAGE_TOO_LARGE


def test_old_compressed_messages_come_one_in_a_request() -> None:
    one = build(RECORDS[:2], magic=V1, codec=Codec.GZIP)
    assert prepare(memoryview(one), CONFIG, NOW) is not None
    assert refusal(one + one) == ErrorCode.INVALID_RECORD
    plain = build(RECORDS[:1], magic=V1)
    assert prepare(memoryview(plain + plain), CONFIG, NOW) is not None
    assert refusal(plain + one) == ErrorCode.INVALID_RECORD


def test_the_latest_timestamp_of_many_records_is_that_of_any_of_them() -> None:
    for latest in (0, 1500, 2999):
        records = [Record(i, NOW + (i == latest), CREATE, b"k", b"v") for i in range(3000)]
        prepared = prepare(memoryview(build(records, magic=V2)), CONFIG, NOW)
        assert prepared is not None
        assert [header.max_timestamp for header in prepared.batches] == [NOW + 1]


@pytest.mark.parametrize("codec", [None, Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("is_append_time", [False, True])
@pytest.mark.parametrize("producer", [None, (7, 2)])
def test_a_coordinators_own_batch_is_prepared_as_one_that_was_sent(
    codec: Codec | None, is_append_time: bool, producer: tuple[int, int] | None
) -> None:
    """Its commits in a transaction have a producer, and no sequence numbers."""
    pairs = [(b"one", b"1"), (b"two", None)]
    records = [Record(n, NOW, CREATE, *pair) for n, pair in enumerate(pairs)]
    options: dict[str, Any] = {}
    if producer is not None:
        options = {"producer_id": 7, "producer_epoch": 2, "transactional": True}
    data = build(records, magic=V2, **options)
    config = replace(CONFIG, codec=codec, is_append_time=is_append_time)
    expected = prepare(memoryview(data), config, NOW, by_coordinator=True)
    assert expected is not None
    own = prepare_own(pairs, config, NOW, producer)
    assert (own.batches, own.records_count) == (expected.batches, expected.records_count)
    assert own.log_append_time == expected.log_append_time
    assert own.place(5, 1) == expected.place(5, 1)
    with pytest.raises(ApiError, match="a batch of"):
        prepare_own(pairs, replace(config, message_size_max=10), NOW)


@pytest.mark.parametrize("is_append_time", [False, True])
@pytest.mark.parametrize("magic", [V1, V2])
def test_records_that_are_much_larger_than_their_batch_are_rewritten_one_by_one(
    magic: int, is_append_time: bool
) -> None:
    """They are not all held at once, and none of them is lost."""
    values = [bytes([n]) * 600_000 for n in range(3)]
    records = [Record(n, NOW + n, CREATE, b"k%d" % n, value) for n, value in enumerate(values)]
    producer = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 4} if magic == V2 else {}
    data = build(records, magic=V2, codec=Codec.GZIP, **producer)  # type: ignore[arg-type]
    config = replace(CONFIG, codec=Codec.LZ4, is_append_time=is_append_time, magic=magic)
    prepared = prepare(memoryview(data), config, NOW + 50)
    assert prepared is not None
    assert prepared.is_converted
    found = MemoryRecords(bytes(prepared.place(40, 5)[0]))
    times = [NOW + 50] * 3 if is_append_time else [NOW, NOW + 1, NOW + 2]
    assert [(one.offset, one.timestamp, one.key, one.value) for one in read(found)] == [
        (40 + n, times[n], b"k%d" % n, values[n]) for n in range(3)
    ]
    (header,) = found.batches()
    assert (header.magic, header.codec) == (magic, Codec.LZ4)
    if magic == V2:
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 4)
