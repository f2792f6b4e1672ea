"""Damage is reported with place and reason, is skipped, or ends the query."""

from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import pytest

from downconvert.spark.errors import CorruptSegmentError, MissingOffsetsError
from downconvert.storage.names import Kind, file_name
from records import Codec, MemoryRecords, Record, build, read
from records.formats import BATCH_HEADER_SIZE, PREFIX, V0, V1, V2
from tests.damage import damaged, flipped, mutated
from tests.downconvert.spark.reading import packed, partition, rows, splits
from tests.downconvert.storage.logs import batch, indexed_segment, segment

Row = dict[str, Any]
LEVELS = ("record", "batch")


def batches(count: int = 60, **options: Any) -> list[bytes]:
    return [batch(3 * i, 3 * i + 2, size=200, **options) for i in range(count)]


def with_index(tmp_path: Path, good: list[bytes], data: bytes) -> None:
    """A segment whose index was written when its bytes were good."""
    indexed_segment(tmp_path / "topic-0", 0, *good, interval=1000)
    (tmp_path / "topic-0" / file_name(0, Kind.LOG)).write_bytes(data)


def corrupt(found: list[Row]) -> list[tuple[int, str]]:
    damage_rows = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    return [(row["position"], row["reason"]) for row in damage_rows]


def lost_offsets(found: list[Row]) -> set[int]:
    gaps = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    return {at for gap in gaps for at in range(gap["startOffset"], gap["endOffset"])}


def offsets(found: list[Row]) -> list[int]:
    return [row["offset"] for row in found if row.get("_corrupt") is None]


@pytest.mark.parametrize("magic", [V0, V1, V2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_wrong_checksum_is_a_row_and_the_others_are_read(
    tmp_path: Path, magic: int, codec: Codec, indexed: bool
) -> None:
    good = batches(magic=magic, codec=codec)
    entry = next(MemoryRecords(good[20]).batches())
    bad = flipped(good[20], 8 * (entry.size - 1))
    data = b"".join([*good[:20], bad, *good[21:]])
    if indexed:
        with_index(tmp_path, good, data)
    else:
        partition(tmp_path, data)
    at = sum(map(len, good[:20]))
    found = rows(tmp_path, mode="PERMISSIVE", verifyCrc=True)
    ((position, reason),) = corrupt(found)
    assert position == at
    assert reason.startswith(f"checksum does not match, at byte {at}; reading goes on at byte")
    lost = {60, 62} if magic == V2 or codec else {60}
    assert set(range(0, 180, 3)) | set(range(2, 180, 3)) == set(offsets(found)) | lost
    assert rows(tmp_path, mode="DROPMALFORMED", verifyCrc=True) == [
        {name: value for name, value in row.items() if name != "_corrupt"}
        for row in found
        if row["_corrupt"] is None
    ]
    with pytest.raises(CorruptSegmentError, match=rf"log: checksum does not match, at byte {at}"):
        rows(tmp_path, verifyCrc=True)


@pytest.mark.parametrize("field", ["size", "magic", "records_count"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_header_that_cannot_be_read_costs_what_is_up_to_the_next_index_entry(
    tmp_path: Path, field: str, level: str
) -> None:
    good = batches()
    to = {"size": 10, "magic": 7, "records_count": -5}[field]
    bad = damaged(good[20], field=field, to=to, crc="stale")
    with_index(tmp_path, good, b"".join([*good[:20], bad, *good[21:]]))
    options = {"level": level, "mode": "PERMISSIVE", "verifyCrc": False}
    found = rows(tmp_path, **options, maxPartitionBytes=10**9)
    if level == "batch" and field == "records_count":  # which a header may say
        assert corrupt(found) == []
        return
    ((position, _),) = corrupt(found)
    assert position == sum(map(len, good[:20]))
    behind = [row for row in found if row["_corrupt"] is None]
    assert len(behind) >= (60 - 8) * (2 if level == "record" else 1)
    for size in (600, 5000):
        assert rows(tmp_path, **options, maxPartitionBytes=size) == found


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("less", [1, 7, 40])
def test_a_size_that_leads_into_the_midst_of_a_batch_is_not_followed(
    tmp_path: Path, level: str, less: int
) -> None:
    good = batches()
    size = next(MemoryRecords(good[20]).batches()).size - PREFIX.size
    bad = damaged(good[20], field="size", to=size - less, crc="stale")
    with_index(tmp_path, good, b"".join([*good[:20], bad, *good[21:]]))
    found = rows(tmp_path, level=level, mode="PERMISSIVE", verifyCrc=True)
    ((position, _),) = corrupt(found)
    assert position == sum(map(len, good[:20]))
    whole = [row for row in found if row["_corrupt"] is None]
    assert len(whole) >= (60 - 8) * (2 if level == "record" else 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("inner", "is_closing"),
    [
        *(((64, *more), False) for more in [(), (65,), (63,)]),
        *(((9000, *more), closes) for more in [(), (9001,)] for closes in (False, True)),
    ],
)
@pytest.mark.parametrize("copies", [0, 1])
def test_a_size_that_leads_to_batches_in_a_value_is_not_followed(
    tmp_path: Path, level: str, inner: tuple[int, ...], is_closing: bool, copies: int
) -> None:
    """The next index entry is behind the batch with that value. `is_closing`: the last one in the
    value says that it goes on up to there. `copies`: others have the same damage."""
    hidden = b"".join(map(batch, inner))
    good = batches()
    if is_closing:
        last = batch(inner[-1])
        size = len(last) - PREFIX.size + 1 + len(good[23])
        hidden = hidden[: -len(last)] + damaged(last, field="size", to=size)
    good[22] = build([Record(66, 0, value=hidden)], magic=V2)
    whole = b"".join(good)
    leap = whole.index(hidden) - sum(map(len, good[:21]))
    bad = damaged(good[21], field="size", to=leap - PREFIX.size, crc="stale")
    for number in range(copies + 1):
        (tmp_path / f"b{number}").mkdir()
        with_index(tmp_path / f"b{number}", good, whole.replace(good[21], bad))
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    assert lost_offsets(found) == set(range(63, 72))
    column = "offset" if level == "record" else "baseOffset"
    read = {row[column] // 3 for row in found if row["_corrupt"] is None}
    assert read == {*range(60)} - {21, 22, 23}


def test_without_an_index_what_is_after_a_broken_header_is_lost_and_reported(
    tmp_path: Path,
) -> None:
    good = batches()
    bad = damaged(good[20], field="magic", to=7, crc="stale")
    partition(tmp_path, b"".join([*good[:20], bad, *good[21:]]))
    at = sum(map(len, good[:20]))
    for size in (600, at - 1, at, at + 1, 10**9):
        found = rows(tmp_path, mode="PERMISSIVE", maxPartitionBytes=size)
        ((position, reason),) = corrupt(found)
        assert position == at
        assert reason.endswith("nothing after it in this segment can be read")
        assert len(offsets(found)) == 40


def test_records_in_front_of_the_damage_in_a_batch_are_read(tmp_path: Path) -> None:
    records = [Record(i, 0, value=bytes(300)) for i in range(10)]
    whole = build(records, magic=V2)
    at = BATCH_HEADER_SIZE + 5 * (len(whole) - BATCH_HEADER_SIZE) // 10  # the sixth record
    bad = bytearray(whole)
    bad[at] = 0x01  # a negative size
    partition(tmp_path, bytes(bad) + batch(10))
    found = rows(tmp_path, mode="PERMISSIVE", verifyCrc=False)
    assert offsets(found) == [0, 1, 2, 3, 4, 10]
    ((position, reason),) = corrupt(found)
    assert position == 0
    assert reason.startswith(f"negative record size, at byte {at}; reading goes on")


def test_a_batch_of_more_bytes_than_records_is_reported_where_it_begins(tmp_path: Path) -> None:
    good = batches()
    swallowing = damaged(good[20], field="size", to=len(good[20]) + len(good[21]) - 12)
    with_index(tmp_path, good, b"".join([*good[:20], swallowing, *good[21:]]))
    for size in (600, 10**9):
        found = rows(tmp_path, mode="PERMISSIVE", maxPartitionBytes=size, verifyCrc=False)
        ((position, reason),) = corrupt(found)
        assert position == sum(map(len, good[:20]))
        assert reason.startswith("bytes left after the last record")
        assert len(offsets(found)) >= 110


def test_the_column_may_have_another_name(tmp_path: Path) -> None:
    partition(tmp_path, damaged(batch(0), field="magic", to=9, crc="stale"))
    (row,) = rows(tmp_path, mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
    assert row["bad"]["segment"].endswith("topic-0/00000000000000000000.log")
    with pytest.raises(ValueError, match="value is taken"):
        rows(tmp_path, mode="PERMISSIVE", columnNameOfCorruptRecord="value")


@pytest.mark.parametrize("level", LEVELS)
def test_a_torn_tail_and_room_that_is_not_written_yet_are_no_damage(
    tmp_path: Path, level: str
) -> None:
    good = batches(5)
    for torn in (good[0][:16], good[0][:40], good[0][:-1], bytes(10), bytes(5000)):
        for verify in (True, False):
            partition(tmp_path, b"".join(good) + torn)
            found = rows(tmp_path, level=level, mode="FAILFAST", verifyCrc=verify)
            assert len(found) == (10 if level == "record" else 5)


@pytest.mark.parametrize("level", LEVELS)
def test_an_entry_that_runs_past_the_end_amid_a_segment_is_damage(
    tmp_path: Path, level: str
) -> None:
    good = batches()
    bad = damaged(good[20], field="size", to=10**6, crc="stale")
    with_index(tmp_path, good, b"".join([*good[:20], bad, *good[21:]]))
    for size in (600, 10**9):
        found = rows(tmp_path, level=level, mode="PERMISSIVE", maxPartitionBytes=size)
        ((position, reason),) = corrupt(found)
        assert position == sum(map(len, good[:20]))
        assert "runs past the end of its segment" in reason


def test_a_record_that_is_too_large_says_what_to_do(tmp_path: Path) -> None:
    for codec in (Codec.NONE, Codec.GZIP):
        large = build([Record(0, 0, value=bytes(5_000_000))], magic=V2, codec=codec)
        partition(tmp_path, large + batch(1))
        found = rows(tmp_path, mode="PERMISSIVE", maxRecordBytes="2m")
        assert offsets(found) == [1]
        assert "which the option maxRecordBytes allows" in corrupt(found)[0][1]
        assert offsets(rows(tmp_path, mode="PERMISSIVE", maxRecordBytes="8m")) == [0, 1]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_damage_rows_are_right_or_it_is_reported(tmp_path: Path, seed: int) -> None:
    """Hostile bytes: no other error, no endless loop; and no wrong row where checksums are
    compared."""
    random = Random(seed)
    codecs = (Codec.NONE, Codec.LZ4)
    good = [
        batch(3 * i, 3 * i + 1, size=80, magic=random.choice((V0, V1, V2)),
              codec=random.choice(codecs))
        for i in range(40)
    ]  # fmt: skip
    bad = b"".join(good)
    bad = flipped(bad, *random.sample(range(8 * len(bad)), 6))
    with_index(tmp_path, good, bad)
    values = set(written(good))
    for row in rows(tmp_path, mode="PERMISSIVE", verifyCrc=True):
        assert row["_corrupt"] is not None or row["value"] in values
    (tmp_path / "topic-0" / file_name(0, Kind.LOG)).write_bytes(mutated(bad, random))
    for level in LEVELS:
        for options in ({}, {"verifyCrc": True}, {"maxPartitionBytes": 900}):
            rows(tmp_path, level=level, mode="DROPMALFORMED", **options)
            rows(tmp_path, level=level, mode="PERMISSIVE", **options)


def written(good: list[bytes]) -> list[bytes | None]:
    return [record.value for data in good for record in read(MemoryRecords(data))]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("options", [{"codec": Codec.NONE}, {"codec": Codec.GZIP}, {"magic": 1}])
def test_a_flipped_byte_in_a_value_is_found_unless_nobody_wants_to_know(
    tmp_path: Path, level: str, options: dict[str, Any]
) -> None:
    bad = bytearray(batch(1, size=100, **options))
    bad[-3] ^= 1
    partition(tmp_path, batch(0) + bad + batch(2))
    with pytest.raises(CorruptSegmentError, match="checksum does not match"):
        rows(tmp_path, level=level)
    assert len(rows(tmp_path, level=level, mode="DROPMALFORMED")) == 2
    if level == "batch" or options != {"codec": Codec.GZIP}:
        assert len(rows(tmp_path, level=level, verifyCrc=False)) == 3


@pytest.mark.parametrize("level", ["record", "batch"])
def test_damage_behind_the_last_offset_that_is_wanted_is_nobodys(
    tmp_path: Path, level: str
) -> None:
    good = batches(10)
    data = b"".join(good)
    at = sum(map(len, good[:5]))
    end = next(MemoryRecords(good[5]).batches()).base_offset
    partition(tmp_path, data[:at] + b"\xff" * 30 + data[at + 30 :])
    wanted = '{"topic":{"0":%d}}'
    before = rows(tmp_path, level=level, endingOffsets=wanted % end)
    assert before == rows(tmp_path, level=level, mode="DROPMALFORMED")[: len(before)]
    assert before
    with pytest.raises(CorruptSegmentError):
        rows(tmp_path, level=level, endingOffsets=wanted % (end + 1))


@pytest.mark.parametrize("what", ["checksum", "header", "cut"])
@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("at", [10, 12])
def test_damage_where_a_later_copy_goes_on_is_nobodys(
    tmp_path: Path, what: str, is_indexed: bool, at: int
) -> None:
    """The earlier copy is read up to offset 10 only."""
    make = indexed_segment if is_indexed else segment
    (tmp_path / "b1").mkdir()
    (tmp_path / "b2").mkdir()
    make(tmp_path / "b1" / "a-0", 10, *(batch(n, n + 1, leader_epoch=1) for n in range(10, 20, 2)))
    log = make(tmp_path / "b2" / "a-0", 0, *(batch(n, n + 1) for n in range(0, 16, 2))).path()
    data, size = bytearray(log.read_bytes()), len(batch(0, 1))
    start = at // 2 * size
    if what == "checksum":
        data[start + size - 1] ^= 1
    elif what == "header":
        data[start : start + BATCH_HEADER_SIZE] = b"\xff" * BATCH_HEADER_SIZE
    else:
        del data[start + 20 :]
    log.write_bytes(data)
    assert offsets(rows(tmp_path)) == list(range(20))
    assert corrupt(rows(tmp_path, mode="PERMISSIVE")) == []


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("number", [5, 6])
def test_damage_in_what_a_cleaner_has_merged_from_the_next_segment_is_nobodys(
    tmp_path: Path, is_indexed: bool, number: int
) -> None:
    entries = [batch(n, n + 1) for n in range(0, 14, 2)]
    entries[number] = flipped(entries[number], 8 * (len(entries[number]) - 1))
    make = indexed_segment if is_indexed else segment
    for base, held in ((0, entries), (10, [batch(n, n + 1) for n in range(10, 20, 2)])):
        make(tmp_path / "a-0", base, *held)
    assert offsets(rows(tmp_path)) == list(range(20))


@pytest.mark.parametrize(("start", "end"), [(2, 9), (3, 9), (4, 9), (0, 4), (0, 9)])
def test_no_offset_before_the_wanted_ones_is_reported(tmp_path: Path, start: int, end: int) -> None:
    broken = bytearray(batch(2, 3, 4, 5))
    broken[-1] ^= 1
    partition(tmp_path, batch(0, 1) + broken + batch(6, 7, 8), "a-0")
    bounds = {
        "startingOffsets": f'{{"a":{{"0":{start}}}}}',
        "endingOffsets": f'{{"a":{{"0":{end}}}}}',
    }
    found = rows(tmp_path, mode="PERMISSIVE", **bounds)
    assert [row["offset"] for row in found if row["_corrupt"] is None] == [
        at for at in (0, 1, 6, 7, 8) if start <= at < end
    ]
    (report,) = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    assert report["startOffset"] == max(start, 2)


@pytest.mark.parametrize("level", LEVELS)
def test_offsets_missing_after_a_segment_are_reported_although_its_index_leads_to_no_batch(
    tmp_path: Path, level: str
) -> None:
    """The plan trusts the index of a segment in a store, and cuts there. The task before the cut
    then reads up to the end."""
    good = [batch(at, at + 1) for at in range(0, 10, 2)]
    directory = partition(tmp_path / "logs", b"".join(good), "a-0")
    partition(tmp_path / "logs", batch(20), "a-0", 20)
    position = 3 * len(good[0]) + 10
    (directory / file_name(0, Kind.OFFSET_INDEX)).write_bytes(pack(">ii", 5, position))
    path = packed(tmp_path / "logs")
    cut = {"maxPartitionBytes": len(good[0]), "level": level}
    assert [one.end for one in splits(path, **cut)][:1] == [position]
    with pytest.raises(MissingOffsetsError, match="a-0: offsets 10 up to 20 are missing"):
        rows(path, **cut)
    found = rows(path, mode="PERMISSIVE", **cut)
    told = [row["_corrupt"] for row in found if row["_corrupt"]]
    assert [(one["startOffset"], one["endOffset"]) for one in told] == [(10, 20)]
    assert len(found) == 1 + (11 if level == "record" else 6)


@pytest.mark.parametrize("is_packed", [False, True])
def test_damage_that_two_copies_have_counts_only_between_the_bounds_of_a_query(
    tmp_path: Path, is_packed: bool
) -> None:
    """Both have damaged offsets 15 to 19. In one of them a batch from 10 to 19 is damaged."""
    large, (good, bad) = batch(*range(10, 20)), (batch(*range(at, at + 5)) for at in (10, 15))
    spoilt = (flipped(data, 8 * (len(data) - 1)) for data in (large, bad))
    for broker, middle in zip(("b1", "b2"), (b"", good), strict=True):
        data = batch(*range(10)) + middle + next(spoilt)
        data += batch(*range(20, 30 if broker == "b1" else 28))
        partition(tmp_path / "logs" / broker, data)
    path = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    for first, last in [(0, end) for end in (9, 10, 13, 15, 16, 20, 25)] + [
        (start, 30) for start in (9, 10, 13, 15, 16, 19, 20, 25)
    ]:
        given = {"startingOffsets": f'{{"topic":{{"0":{first}}}}}'}
        given["endingOffsets"] = f'{{"topic":{{"0":{last}}}}}'
        absent = range(max(first, 15), min(last, 20))
        wanted = [at for at in range(first, last) if at not in absent]
        found = rows(path, mode="PERMISSIVE", **given)
        assert offsets(found) == wanted
        named = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
        assert [(one["startOffset"], one["endOffset"]) for one in named] == (
            [(absent.start, absent.stop)] if absent else []
        )
        if absent:
            with pytest.raises(CorruptSegmentError):
                rows(path, **given)
        else:
            assert offsets(rows(path, **given)) == wanted
