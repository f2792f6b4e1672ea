"""The records that a cleaner keeps: Kafka's rules."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from downconvert.storage.cleaning.compaction import (
    Cleaner,
    CompactionCount,
    LastOfProducers,
    note_latest,
)
from downconvert.storage.cleaning.offset_map import OffsetMap
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.producers.producer_state import ProducerState
from downconvert.storage.producers.transactions import AbortedRanges
from records import MemoryRecords
from records.batches.builder import build, build_marker
from records.batches.control import ControlRecordType
from records.batches.reader import read
from records.formats import V0, V1, V2, Codec, TimestampType
from records.record import Record

PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def clean(
    data: bytes,
    aborted: Sequence[AbortedTransaction] = (),
    *,
    producers: Sequence[ProducerState] = (),
    now: int = 1000,
    horizon: int = 5000,
    end: int = 10**6,
    keeps_tombstones: bool = True,
) -> tuple[bytes, CompactionCount]:
    records = MemoryRecords(data)
    latest = OffsetMap(24_000)
    ranges = AbortedRanges(aborted)
    for header in records.batches():
        if header.base_offset < end:
            assert note_latest(latest, records, header, ranges, 0)
    cleaner = Cleaner(
        latest,
        AbortedRanges(aborted),
        LastOfProducers(producers),
        now=now,
        delete_retention_ms=horizon - now,
        end=end,
    )
    cleaned = [
        cleaner.clean(records, header, keeps_tombstones=keeps_tombstones)
        for header in records.batches()
    ]
    latest.close()
    return b"".join(data for data in cleaned if data is not None), cleaner.count


def keyed(start: int, *pairs: tuple[bytes | None, bytes | None], **options: object) -> bytes:
    magic = options.pop("magic", V2)
    kind = TimestampType.NONE if magic == V0 else TimestampType.CREATE
    records = [
        Record(start + n, -1 if magic == V0 else 10 * (start + n), kind, key, value)
        for n, (key, value) in enumerate(pairs)
    ]
    return build(records, magic=magic, **options)  # type: ignore[arg-type]


def found(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in read(MemoryRecords(data))]


def headers(data: bytes) -> list[tuple[int, int, int | None]]:
    batches = MemoryRecords(data).batches()
    return [(h.base_offset, h.last_offset, h.records_count) for h in batches]


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    data = keyed(0, (b"a", b"1"), (b"b", b"2"), (b"a", b"3")) + keyed(3, (b"b", b"4"))
    left, count = clean(data)
    assert found(left) == [(2, b"a", b"3"), (3, b"b", b"4")]
    assert (count.records_in, count.records_out) == (4, 2)
    assert headers(left) == [(0, 2, 1), (3, 3, 1)]  # a batch keeps its ends


def test_a_record_without_a_key_is_removed() -> None:
    assert found(clean(keyed(0, (None, b"1"), (b"a", b"2")))[0]) == [(1, b"a", b"2")]


def test_batches_that_lose_nothing_stay_as_they_are() -> None:
    data = keyed(0, (b"a", b"1"), (b"b", b"2"), codec=Codec.LZ4)
    assert clean(data)[0] == data


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.binary(max_size=3))),
    st.sampled_from([(V0, Codec.GZIP), (V1, Codec.NONE), (V1, Codec.LZ4), (V2, Codec.ZSTD)]),
)
def test_every_format_is_cleaned(pairs: list[tuple[bytes, bytes]], kind: tuple[int, Codec]) -> None:
    magic, codec = kind
    data = b"".join(
        keyed(at, *pairs[at : at + 3], magic=magic, codec=codec) for at in range(0, len(pairs), 3)
    )
    left, _ = clean(data)
    last = {key: (offset, value) for offset, (key, value) in enumerate(pairs)}
    expected = sorted((offset, key, value) for key, (offset, value) in last.items())
    assert found(left) == expected
    assert clean(left)[0] == left
    assert {h.magic for h in MemoryRecords(left).batches()} <= {magic}


def test_a_tombstone_stays_up_to_the_horizon_that_it_gets_when_it_is_first_cleaned() -> None:
    data = keyed(0, (b"a", b"1"), (b"a", None), (b"b", b"2"))
    once, _ = clean(data, now=1000, horizon=5000)
    assert found(once) == [(1, b"a", None), (2, b"b", b"2")]
    (header,) = MemoryRecords(once).batches()
    assert header.has_delete_horizon
    assert header.base_timestamp == 5000
    assert [r.timestamp for r in read(MemoryRecords(once))] == [10, 20]
    assert clean(once, now=4999, horizon=9000)[0] == once
    assert found(clean(once, now=5000, horizon=9000)[0]) == [(2, b"b", b"2")]


def test_a_tombstone_of_an_old_format_stays_until_its_segment_is_old() -> None:
    data = keyed(0, (b"a", b"1"), (b"a", None), magic=V1, codec=Codec.GZIP)
    once, _ = clean(data)
    assert clean(once, now=10**15)[0] == once
    assert found(once) == [(1, b"a", None)]
    assert not clean(once, keeps_tombstones=False)[0]  # its segment is old


def test_records_after_the_offset_map_stay() -> None:
    data = keyed(0, (b"a", b"1"), (b"a", b"2")) + keyed(2, (b"a", b"3"), (None, b"4"), (b"a", None))
    assert found(clean(data, end=2)[0]) == [
        (1, b"a", b"2"), (2, b"a", b"3"), (3, None, b"4"), (4, b"a", None),
    ]  # fmt: skip


def transaction(start: int, key: bytes) -> bytes:
    return keyed(start, (key, b"v"), **PRODUCER, base_sequence=start, transactional=True)


def marker(at: int, kind: ControlRecordType) -> bytes:
    return build_marker(kind, offset=at, timestamp=5, **PRODUCER)


def test_aborted_records_are_removed_and_do_not_replace_earlier_ones() -> None:
    data = keyed(0, (b"a", b"1")) + transaction(1, b"a") + marker(2, ControlRecordType.ABORT)
    left, _ = clean(data, [AbortedTransaction(7, 1, 2, 3)])
    assert found(left) == [(0, b"a", b"1")]
    assert headers(left) == [(0, 0, 1), (2, 2, 1)]  # its end stays for now


def test_a_marker_is_removed_after_its_data_and_its_horizon() -> None:
    data = transaction(0, b"a") + marker(1, ControlRecordType.COMMIT) + keyed(2, (b"a", b"2"))
    once, _ = clean(data, now=1000, horizon=5000)
    assert headers(once) == [(1, 1, 1), (2, 2, 1)]
    twice, _ = clean(once, now=2000, horizon=6000)
    end = next(MemoryRecords(twice).batches())
    assert (end.is_control, end.has_delete_horizon, end.base_timestamp) == (True, True, 6000)
    assert clean(twice, now=5999)[0] == twice
    assert headers(clean(twice, now=6000)[0]) == [(2, 2, 1)]


def test_the_last_batch_of_a_producer_stays_even_if_it_is_empty() -> None:
    data = transaction(0, b"a") + transaction(1, b"a") + keyed(2, (b"a", b"2"))
    last = [ProducerState(7, 0, last_offset=1)]
    left, _ = clean(data, producers=last)
    assert headers(left) == [(1, 1, 0), (2, 2, 1)]
    kept = next(MemoryRecords(left).batches())
    assert (kept.producer_id, kept.base_sequence, kept.is_transactional) == (7, 1, True)
    assert clean(left, producers=last)[0] == left
    assert headers(clean(left)[0]) == [(2, 2, 1)]  # it has written since, elsewhere


def test_a_marker_stays_emptied_if_its_producer_has_nothing_else() -> None:
    """Its epoch fences older instances of the producer."""
    fenced = [ProducerState(7, 0)]
    data = marker(0, ControlRecordType.ABORT) + keyed(1, (b"a", b"2"))
    once, _ = clean(data, producers=fenced, horizon=5000)
    twice, _ = clean(once, producers=fenced, now=5000, horizon=9000)
    assert headers(twice) == [(0, 0, 0), (1, 1, 1)]
    assert next(MemoryRecords(twice).batches()).is_control
    assert clean(twice, producers=fenced, now=6000)[0] == twice
    assert headers(clean(twice, now=6000)[0]) == [(1, 1, 1)]  # its producer has expired
    assert headers(clean(once, now=5000, horizon=9000)[0]) == [(1, 1, 1)]


def test_a_marker_depends_on_the_data_of_its_own_transaction_only() -> None:
    """Two transactions of one producer; the data of the second is gone already."""
    first = transaction(0, b"a") + marker(1, ControlRecordType.COMMIT)
    data = first + marker(2, ControlRecordType.COMMIT)
    cleaned, _ = clean(data, now=1000, horizon=5000)
    headers = list(MemoryRecords(cleaned).batches())
    assert [header.has_delete_horizon for header in headers] == [False, False, True]
    left, _ = clean(cleaned, now=5000, horizon=9000)
    assert left == first


def test_data_outside_of_transactions_keeps_no_marker() -> None:
    """Data of another producer does not either. That of the transaction itself does."""
    options = {"base_sequence": 0, **PRODUCER}
    marker = build_marker(ControlRecordType.COMMIT, offset=5, timestamp=0, **PRODUCER)
    plain = keyed(0, (b"a", b"1"), **options)
    in_transaction = keyed(0, (b"a", b"1"), transactional=True, **options)
    other = keyed(0, (b"a", b"1"), transactional=True, producer_id=8, producer_epoch=0)
    for data, keeps in ((plain, False), (other, False), (in_transaction, True)):
        once, _ = clean(data + marker, now=1000, horizon=5000)
        again, _ = clean(once, now=6000, horizon=9000)
        assert any(h.is_control for h in MemoryRecords(once).batches())
        assert any(h.is_control for h in MemoryRecords(again).batches()) == keeps


def test_keys_are_noted_from_the_first_dirty_offset_on() -> None:
    """The same holds for a batch that ends with exactly that offset, and for the rest of a batch
    that contains it."""
    for start, expected in ((0, {b"a": 2, b"b": 1}), (2, {b"a": 2}), (3, {})):
        latest = OffsetMap(24_000)
        records = MemoryRecords(keyed(0, (b"a", b"1"), (b"b", b"2"), (b"a", b"3")))
        (header,) = records.batches()
        assert note_latest(latest, records, header, AbortedRanges(()), start)
        assert {key: at for key in (b"a", b"b") if (at := latest.get(key)) >= 0} == expected
        latest.close()


def test_batches_from_the_end_on_stay_as_they_are() -> None:
    """Their keys are not noted yet. A tombstone gets its horizon when it is cleaned."""
    before = keyed(0, (b"a", b"1"), (b"b", b"2"))
    after = [keyed(at, (b"a", b"3"), (b"b", None), (None, b"4")) for at in (2, 5)]
    left, count = clean(before + b"".join(after), end=2)
    assert left == before + b"".join(after)
    assert (count.records_in, count.records_out) == (8, 8)


def test_a_batch_across_the_end_is_cleaned_up_to_there() -> None:
    data = keyed(0, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"), (None, b"4"), (b"a", b"5"))
    records = MemoryRecords(data)
    (header,) = records.batches()
    latest = OffsetMap(24_000)
    assert latest.put(b"a", 1)
    cleaner = Cleaner(
        latest, AbortedRanges(()), LastOfProducers(()), now=1000, delete_retention_ms=1, end=2
    )
    left = cleaner.clean(records, header)
    latest.close()
    assert left is not None
    assert [offset for offset, _, _ in found(left)] == [1, 2, 3, 4]


def test_aborted_records_go_also_from_the_end_on() -> None:
    """No reader gets them, and their keys are never noted."""
    aborted = keyed(2, (b"a", b"3"), transactional=True, base_sequence=0, **PRODUCER)
    marker = build_marker(ControlRecordType.ABORT, offset=3, timestamp=0, **PRODUCER)
    data = keyed(0, (b"a", b"1")) + aborted + marker
    left, _ = clean(data, [AbortedTransaction(7, 2, 3, 4)], end=1)
    assert [offset for offset, _, _ in headers(left)] == [0, 3]
