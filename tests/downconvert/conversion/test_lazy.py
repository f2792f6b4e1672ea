"""Nothing is converted before it is sent, beyond what the promised size needs."""

from dataclasses import replace

import pytest

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords, convert
from downconvert.conversion import made
from records import (
    Codec,
    ControlRecordType,
    CorruptRecordsError,
    MemoryRecords,
    Record,
    UnsupportedCodecError,
    build,
    build_empty,
    build_marker,
    read,
)

from .channels import sent

KAFKA = ConversionPolicy.kafka()


def one(offset, codec=Codec.NONE, value=b"v"):
    """A batch of one record."""
    return build([Record(offset=offset, timestamp=5, key=b"k", value=value)], magic=2, codec=codec)


def marker(offset):
    return build_marker(ControlRecordType.COMMIT, offset=offset, timestamp=5, producer_id=1)


class Watched(MemoryRecords):
    """Records that know how far they have been read, and can only be read."""

    view = None

    def __init__(self, data):
        super().__init__(data)
        self.furthest = 0

    def read_into(self, target, position):
        count = super().read_into(target, position)
        self.furthest = max(self.furthest, position + count)
        return count


def offsets(converted):
    return [record.offset for record in read(MemoryRecords(converted))]


def test_an_estimate_reads_no_further_than_the_first_batch_that_converts_to_something():
    data = marker(0) + b"".join(one(i, value=b"v" * 20_000) for i in range(1, 50))
    records = Watched(data)
    LazyDownConvertRecords(records, 1, policy=ConversionPolicy(size="estimate"))
    assert records.furthest < 3 * 20_000


def test_an_exact_size_is_what_is_sent_to_the_byte():
    data = one(0) + one(1, Codec.GZIP) + marker(2) + one(3, Codec.ZSTD)
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
    converted = sent(lazy.to_send())
    assert len(converted) == lazy.size
    assert offsets(converted) == [0, 1, 3]


def test_a_second_send_begins_again():
    lazy = LazyDownConvertRecords(MemoryRecords(one(0) + one(1)), 1)
    assert sent(lazy.to_send()) == sent(lazy.to_send())


@pytest.mark.parametrize("policy", [ConversionPolicy(), KAFKA], ids=["default", "kafka"])
def test_an_empty_log_promises_no_bytes(policy):
    assert LazyDownConvertRecords(MemoryRecords(b""), 1, policy=policy).size == 0


@pytest.mark.parametrize("policy", [ConversionPolicy(), KAFKA], ids=["default", "kafka"])
def test_a_lone_torn_batch_promises_no_bytes(policy):
    torn = MemoryRecords(one(0)[:-1])
    lazy = LazyDownConvertRecords(torn, 1, policy=policy)
    assert lazy.size == 0
    assert lazy.to_send().completed


@pytest.mark.parametrize("nothing", [marker(7), build_empty(base_offset=7, last_offset=9)])
def test_if_all_batches_are_left_out_kafka_promises_twelve_bytes_and_we_none(nothing):
    records = MemoryRecords(nothing)
    assert sent(LazyDownConvertRecords(records, 1, policy=KAFKA).to_send()) == bytes.fromhex(
        "ffffffffffffffff0000003d"
    )
    assert LazyDownConvertRecords(records, 1).size == 0


def test_the_first_batch_after_a_marker_is_sent_once():
    records = MemoryRecords(marker(7) + one(8) + one(9))
    converted = sent(LazyDownConvertRecords(records, 1, 7, KAFKA).to_send())
    assert len(converted) == records.size
    assert offsets(converted[: 2 * 36]) == [8, 9]
    assert converted[72:84].hex() == "ffffffffffffffff" + (records.size - 72 + 1).to_bytes(4).hex()


def test_kafkas_policy_refuses_zstd_in_the_first_batch():
    records = MemoryRecords(marker(0) + one(1, Codec.ZSTD) + one(2))
    with pytest.raises(UnsupportedCodecError, match=r"zstd is refused .* at byte 78"):
        LazyDownConvertRecords(records, 1, policy=KAFKA)


@pytest.mark.parametrize("before", [one(0), one(0) + one(1)])
def test_kafkas_policy_sends_filler_from_the_chunk_of_a_later_zstd_batch_on(before):
    records = MemoryRecords(before + one(2, Codec.ZSTD))
    converted = sent(LazyDownConvertRecords(records, 1, policy=KAFKA).to_send())
    assert offsets(converted[:36]) == [0]
    assert converted[36:44] == b"\xff" * 8


def test_an_exact_range_ends_before_a_refusal_and_says_why():
    policy = ConversionPolicy(recode={"zstd": "refuse"})
    lazy = LazyDownConvertRecords(MemoryRecords(one(0) + one(1) + one(2, Codec.ZSTD)), 1, 0, policy)
    assert lazy.size == 2 * 36
    assert isinstance(lazy.damage, UnsupportedCodecError)


def test_an_exact_range_ends_before_damage_and_says_where():
    bad = bytearray(one(2))
    bad[57:61] = (1000).to_bytes(4)
    first = len(one(0))
    lazy = LazyDownConvertRecords(MemoryRecords(one(0) + bad), 1)
    assert offsets(sent(lazy.to_send())) == [0]
    assert lazy.damage.position == first
    with pytest.raises(CorruptRecordsError, match="more records than bytes, at byte 0"):
        LazyDownConvertRecords(MemoryRecords(bytes(bad)), 1)


def test_positions_in_errors_are_the_files():
    bad = bytearray(one(2))
    bad[57:61] = (1000).to_bytes(4)
    records = MemoryRecords(b"\0" * 100 + bad).slice(100, len(bad))
    with pytest.raises(CorruptRecordsError, match="at byte 100"):
        LazyDownConvertRecords(records, 1)


def test_a_target_that_reads_everything_gets_the_records_as_they_are():
    data = one(0) + marker(1) + one(2, Codec.ZSTD)
    assert b"".join(convert(MemoryRecords(data + data[:30]), 2)) == data


def test_unknown_target_formats_are_refused():
    with pytest.raises(ValueError, match="to_magic must be 0, 1 or 2"):
        LazyDownConvertRecords(MemoryRecords(one(0)), 3)


def test_the_head_of_a_response_is_how_it_begins():
    """Plain messages of a large response are made when it is sent."""
    plain = b"".join(one(n, value=b"v" * 10_000) for n in range(20))
    recompressed = one(20, Codec.ZSTD)
    for data, is_held in ((recompressed, True), (plain + recompressed, False), (plain, False)):
        lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
        assert lazy.is_held == is_held
        assert lazy.head()
        assert sent(lazy.to_send()).startswith(lazy.head())


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_response_that_could_not_be_held_begins_as_it_is_sent(codec, monkeypatch):
    monkeypatch.setattr(made.budget, "left", 0)
    lazy = LazyDownConvertRecords(MemoryRecords(one(0, codec) + one(1, codec)), 1)
    assert not lazy.is_held
    assert lazy.head()
    assert sent(lazy.to_send()).startswith(lazy.head())


def test_a_head_stays_as_it_is_while_other_records_are_converted():
    """The first message is larger than the window, so Python converts it in a reused buffer."""
    lazy, other = (
        LazyDownConvertRecords(MemoryRecords(one(0, value=value * 100_000)), 1)
        for value in (b"v", b"w")
    )
    head = lazy.head()
    assert b"w" in sent(other.to_send())
    assert sent(lazy.to_send()).startswith(head)


@pytest.mark.parametrize("count", [1, 20])
def test_the_head_of_a_response_has_no_aborted_records(count):
    """It is held for one batch, and made for more of them."""
    of_7 = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    aborted = build([Record(0, 5, value=b"aborted")], magic=2, **of_7)
    end = build_marker(ControlRecordType.ABORT, offset=2, timestamp=5, producer_id=7)
    committed = b"".join(one(2 + n, value=b"v" * 10_000) for n in range(count))
    policy = ConversionPolicy(isolation="read_committed")
    log = MemoryRecords(aborted + end + committed)
    lazy = LazyDownConvertRecords(log, 1, 0, policy, aborted=[AbortedTransaction(7, 0)])
    assert lazy.is_held == (count == 1)
    assert lazy.head()
    assert sent(lazy.to_send()).startswith(lazy.head())


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_send_of_a_negative_size_is_refused(size):
    """Otherwise nobody could say when it is completed."""
    lazy = LazyDownConvertRecords(MemoryRecords(one(0, value=b"v" * size)), 1)
    with pytest.raises(ValueError, match="at least 0, not -1"):
        lazy.to_send(-1)
    assert lazy.to_send(0).completed


def test_an_estimate_of_records_that_convert_to_nothing_has_an_empty_head():
    policy = ConversionPolicy(size="estimate")
    lazy = LazyDownConvertRecords(
        MemoryRecords(build_empty(base_offset=0, last_offset=3)), 1, 0, policy
    )
    assert lazy.size > 0
    assert not lazy.head()


def test_a_marker_with_a_refused_codec_does_not_end_an_estimate():
    """Markers are dropped before their codec is looked at."""
    record = Record(1, 5, key=b"\0\0\0\1", value=b"v")
    control = build([record], magic=2, codec=Codec.ZSTD, control=True)
    data = one(0, value=b"v" * 200) + control + one(2, value=b"v" * 200)
    converted = sent(LazyDownConvertRecords(MemoryRecords(data), 1, policy=KAFKA).to_send())
    sizes = len(sent(LazyDownConvertRecords(MemoryRecords(one(0, value=b"v" * 200)), 1).to_send()))
    assert offsets(converted[: 2 * sizes]) == [0, 2]


@pytest.mark.parametrize("end", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_an_aborted_batch_with_a_refused_codec_does_not_end_an_estimate(end):
    """It is left out before its codec is looked at. The batch of a committed transaction is not."""
    value, policy = b"v" * 200, replace(KAFKA, isolation="read_committed")
    transaction = {"transactional": True, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    refused = build([Record(3, 5, value=value)], magic=2, codec=Codec.ZSTD, **transaction)
    before = build([Record(1, 5, value=value)], magic=2, **transaction)
    marker = build_marker(ControlRecordType.ABORT, offset=2, timestamp=5, producer_id=7)
    data = one(0, value=value) + before + marker + refused
    data += build_marker(end, offset=4, timestamp=5, producer_id=7) + one(5, value=value)
    aborted = [AbortedTransaction(7, 1, 2)]
    if end is ControlRecordType.ABORT:
        aborted.append(AbortedTransaction(7, 3, 4))
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1, policy=policy, aborted=aborted)
    message = len(sent(LazyDownConvertRecords(MemoryRecords(one(0, value=value)), 1).to_send()))
    found = offsets(sent(lazy.to_send())[: 2 * message])
    assert found == ([0, 5] if end is ControlRecordType.ABORT else [0])
