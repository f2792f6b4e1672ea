"""The strategies keep their promises to the tests that draw from them."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import Phase, find, given, settings

from records import BatchHeader, MemoryRecords
from records.batches.reader import read, read_batch
from records.formats import V0, V1, V2, Codec, TimestampType
from records.record import Record

from .strategies import (
    SMALL_CONTENTS,
    Batch,
    Segment,
    batches,
    control_batches,
    emptied_batches,
    placed,
    segments,
)

Holds: TypeAlias = Callable[[Segment], bool]


@given(segments())
def test_a_reader_finds_what_a_segment_says_it_holds(segment: Segment) -> None:
    assert list(read(MemoryRecords(segment.data))) == segment.records


@given(placed(batches() | emptied_batches() | control_batches()))
def test_a_reader_finds_what_a_batch_says_it_holds(batch: Batch) -> None:
    records = MemoryRecords(batch.data)
    found = [record for header in records.batches() for record in read_batch(records, header)]
    assert found == list(batch.records)


@given(placed(batches() | emptied_batches() | control_batches()))
def test_headers_say_what_a_batch_says_of_itself(batch: Batch) -> None:
    for header in MemoryRecords(batch.data).batches():
        assert (header.magic, header.codec) == (batch.magic, batch.codec)
        assert (header.is_control, header.is_transactional) == (
            batch.is_control,
            batch.is_transactional,
        )
        assert header.producer_id == batch.producer_id
        assert header.last_offset <= batch.last_offset


@given(segments())
def test_offsets_increase_from_record_to_record(segment: Segment) -> None:
    offsets = [record.offset for record in segment.records]
    assert all(before < after for before, after in pairwise(offsets))


def headers(segment: Segment) -> list[BatchHeader]:
    return list(MemoryRecords(segment.data).batches())


def some_record(holds: Callable[[Record], bool]) -> Holds:
    return lambda segment: any(map(holds, segment.records))


def some_header(holds: Callable[[BatchHeader], bool]) -> Holds:
    return lambda segment: any(map(holds, headers(segment)))


def some_batch_of(magic: int, codec: Codec, kind: TimestampType) -> Holds:
    return some_header(lambda h: (h.magic, h.codec, h.timestamp_type) == (magic, codec, kind))


KINDS: dict[str, Holds] = {
    **{
        f"v{magic} {codec.name} {kind.name}": some_batch_of(magic, codec, kind)
        for magic in (V0, V1, V2)
        for codec in Codec
        if magic == V2 or codec is not Codec.ZSTD
        for kind in (
            [TimestampType.CREATE, TimestampType.LOG_APPEND] if magic else [TimestampType.NONE]
        )
    },
    "a null key": some_record(lambda r: r.key is None),
    "an empty value": some_record(lambda r: r.value == b""),
    "a large value": some_record(lambda r: len(r.value or b"") > 16 * 1024),
    "a header with an empty key": some_record(lambda r: any(key == "" for key, _ in r.headers)),
    "a header without a value": some_record(lambda r: any(v is None for _, v in r.headers)),
    "a header key twice": some_record(lambda r: len(dict(r.headers)) < len(r.headers)),
    "a header key that is no ASCII": some_record(
        lambda r: not all(key.isascii() for key, _ in r.headers)
    ),
    "no timestamp": some_record(lambda r: r.timestamp == -1 and r.timestamp_type == 0),
    "a sequence number": some_record(lambda r: r.sequence >= 0),
    "sequence numbers that wrap": some_header(lambda h: -1 < h.last_sequence < h.base_sequence),
    "time that runs back": lambda s: any(
        0 <= b.timestamp < a.timestamp for a, b in pairwise(s.records)
    ),
    "a gap inside of a batch": lambda s: any(
        b.records[-1].offset - b.records[0].offset >= len(b.records) for b in s.batches if b.records
    ),
    "many records": lambda s: len(s.records) > 200,
    "a transaction": some_header(lambda h: h.is_transactional and not h.is_control),
    "an end of a transaction": some_header(lambda h: h.is_transactional and h.is_control),
    "a compressed control batch": some_header(lambda h: h.is_control and h.codec > 0),
    "a delete horizon": some_header(lambda h: h.has_delete_horizon),
    "an empty batch": some_header(lambda h: h.records_count == 0),
    "a first record that was taken away": lambda s: any(
        b.magic == V2 and b.records and b.records[0].offset > next(
            MemoryRecords(b.data).batches()).base_offset for b in s.batches
    ),
    "a last record that was taken away": lambda s: any(
        b.records and b.last_offset > b.records[-1].offset for b in s.batches
    ),
    "a control batch first": lambda s: bool(s.batches) and s.batches[0].is_control,
    "control batches only": lambda s: bool(s.batches) and all(b.is_control for b in s.batches),
    "two control batches first": lambda s: [b.is_control for b in s.batches[:2]] == [True, True],
    "formats mixed": lambda s: len({b.magic for b in s.batches}) == 3,
    "a torn end": lambda s: len(s.torn) > 17,
    "a torn end too short to be one": lambda s: 0 < len(s.torn) <= 17,
    "nothing": lambda s: s.data == b"",
    "a torn entry only": lambda s: not s.batches and bool(s.torn),
}  # fmt: skip


class AllDrawn(Exception):  # noqa: N818 - no error
    """Nothing is left to look for."""


def test_every_kind_is_drawn() -> None:
    missing = set(KINDS)

    @settings(max_examples=1000, phases=[Phase.generate], database=None, derandomize=True)
    @given(segments())
    def look_at(segment: Segment) -> None:
        missing.difference_update({kind for kind in missing if KINDS[kind](segment)})
        if not missing:
            raise AllDrawn

    with suppress(AllDrawn):
        look_at()
    assert missing == set()


@pytest.mark.slow
def test_a_failure_shrinks_to_one_plain_record() -> None:
    simplest = find(
        segments(contents=SMALL_CONTENTS, batches_max=2),
        lambda segment: bool(segment.records),
        settings=settings(database=None, derandomize=True),
    )
    (batch,) = simplest.batches
    (record,) = batch.records
    assert (batch.codec, simplest.torn) == (Codec.NONE, b"")
    assert (record.offset, record.key, record.value, record.headers) == (0, b"key", b"value", ())
