"""Offsets that no segment has: a stream waits for those beside which something is new."""

import os
import random
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.logs.places import Json
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.plan.gaps import Gap, end_of, first_gap
from downconvert.spark.stores.blobs import Blob
from downconvert.spark.stream.follow import now
from downconvert.storage.names import OFFSET_MAX, Kind, State, file_name
from tests.downconvert.spark.reading import packed, partition
from tests.downconvert.spark.stream.test_follow import Limit, append, read, stream
from tests.downconvert.spark.tiered import Packing, aiven
from tests.downconvert.storage.logs import batch, indexed_segment

ENDS: Final = {2: 5, 5: 7, 9: 9, 12: 15}  # of segments, by their base offsets
CHANGED: Final = {2: 10, 5: 40, 9: 20, 12: 30}


def segments() -> list[SegmentFile]:
    bases = [*ENDS, OFFSET_MAX]
    return [
        SegmentFile(
            "a-0", base, State.LIVE, 1, after, ((Kind.LOG, Blob("x", 1, 0, CHANGED[base])),)
        )
        for base, after in pairwise(bases)
    ]


@pytest.mark.parametrize(
    ("start", "end", "since", "expected"),
    [
        (0, 15, 0, Gap(7, 9)),
        (0, 1, 0, None),
        (0, 15, 10, Gap(7, 9)),
        (2, 15, 0, Gap(7, 9)),
        (2, 7, 0, None),
        (2, 8, 0, Gap(7, 9)),
        (8, 15, 39, Gap(8, 9)),
        (8, 15, 40, None),
        (9, 15, 0, Gap(9, 12)),
        (9, 15, 29, Gap(9, 12)),
        (9, 15, 30, None),
        (12, 15, 0, None),
        (15, 15, 0, None),
    ],
)
def test_the_first_gap(start: int, end: int, since: int, expected: Gap | None) -> None:
    asked: list[int] = []

    def end_once(file: SegmentFile) -> int:
        asked.append(file.base_offset)
        return ENDS[file.base_offset]

    assert first_gap(segments(), start, end, since, end_once) == expected
    bases = list(ENDS)
    for base in asked:  # nothing is read of what is old, or of no interest
        following = bases[bases.index(base) + 1]
        assert max(CHANGED[base], CHANGED[following]) > since
        assert following > start
        assert base < end


def test_mounted_files_are_as_new_as_they_are_here(tmp_path: Path) -> None:
    """Copies keep the time of the content."""
    directory = partition(tmp_path, batch(0, 1), "a-0")
    partition(tmp_path, batch(5), "a-0", 5)
    partition(tmp_path, b"", "a-0", 7)
    files = [
        SegmentFile(str(directory), base, State.LIVE, size, OFFSET_MAX)
        for base, size in ((0, len(batch(0, 1))), (5, len(batch(5))), (7, 0))
    ]
    status = (directory / file_name(5, Kind.LOG)).stat()
    for file in files:
        os.utime(file.path, (1000, 1000))
    assert [end_of(file) for file in files] == [2, 6, 7]
    assert first_gap(files, 0, 7, status.st_ctime_ns - 1, end_of) == Gap(2, 5)
    assert first_gap(files, 5, 7, status.st_ctime_ns - 1, end_of) == Gap(6, 7)
    latest = max(os.stat(file.path).st_ctime_ns for file in files)  # noqa: PTH116
    assert first_gap(files, 0, 7, latest, end_of) is None


# --- of a stream


@pytest.mark.filterwarnings("ignore:c-0. offsets .* are missing")
@pytest.mark.parametrize("kind", ["mounted", "tar", pytest.param("s3", marks=pytest.mark.others)])
def test_segments_that_come_out_of_their_order_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, kind: str
) -> None:
    """As `aws s3 sync` brings them: small and new ones first."""
    logs = tmp_path / "logs"
    path = f"{logs}.tar" if kind == "tar" else str(logs)
    if kind == "s3":
        _, bucket = request.getfixturevalue("store")
        logs, path = bucket / tmp_path.name, f"s3a://bucket/{tmp_path.name}"
    start, minute = now(), 60_000
    clock = [start]
    monkeypatch.setattr("downconvert.spark.stream.follow.now", lambda: clock[0])

    def update() -> None:
        if kind == "tar":
            packed(logs)

    def followed(place: Json, *, is_new: bool = False) -> tuple[Json, list[str]]:
        """After a restart, or in the same process."""
        nonlocal source
        update()
        source = stream(path, failOnDataLoss=False) if is_new else source
        after = source.latestOffset(place)
        assert source.latestOffset(after) == after  # so that an availableNow query ends
        return after, read(source, place, after)

    partition(logs, batch(0, 1, 2), "c-0")
    update()
    source = stream(path)
    place, rows = followed({"c": {"0": 0}})
    assert (place, rows) == ({"c": {"0": 3}}, ["c-0:0", "c-0:1", "c-0:2"])
    # The broker has written 3 to 9; of three segments two are there.
    partition(logs, b"", "c-0", 9)
    waiting = {"offset": 3, "leaderEpoch": -1, "waitingSince": start, "waitingUpTo": 9}
    with pytest.warns(RuntimeWarning, match="c-0 has no records from offset 3 up to 9 yet"):
        assert followed(place) == ({"c": {"0": waiting}}, [])
    partition(logs, batch(9), "c-0", 9)
    partition(logs, batch(5, 6), "c-0", 5)
    clock[0] += 9 * minute
    assert followed({"c": {"0": waiting}}, is_new=True) == ({"c": {"0": waiting}}, [])
    append(logs / "c-0", batch(3, 4))
    place, rows = followed({"c": {"0": waiting}})
    assert place == {"c": {"0": waiting | {"offset": 7}}}
    assert rows == [f"c-0:{offset}" for offset in range(3, 7)]
    # The wait for missing offsets ends, also if each look is one of a new process.
    clock[0] += minute
    with pytest.warns(RuntimeWarning, match="c-0 has no records from offset 7 up to 9: none came"):
        place, rows = followed(place, is_new=True)
    assert (place, rows) == ({"c": {"0": 10}}, ["c-0:9"])
    # A gap that nothing is new at is how the log is: a cleaner's.
    partition(logs, batch(20), "c-0", 20)
    update()
    clock[0] = now() + 11 * minute
    assert followed(place, is_new=True) == ({"c": {"0": 21}}, ["c-0:20"])


@pytest.mark.filterwarnings("ignore:a-0 has no records")
@pytest.mark.parametrize(("others", "end"), [((3, 4), None), ((7, 8), None), (range(3, 9), 10)])
def test_a_gap_that_another_copy_fills_in_part_is_waited_for(
    tmp_path: Path, others: list[int], end: int | None
) -> None:
    for copy, offsets in (("b1", (0, 1, 2)), ("b1", (9,)), ("b2", others)):
        data = b"".join(batch(offset) for offset in offsets)
        partition(tmp_path / copy, data, "a-0", offsets[0])
    found = stream(tmp_path).latestOffset({"a": {"0": 0}})["a"]["0"]
    if end is None:
        assert isinstance(found, dict)
        assert found["offset"] < 9
        assert found["waitingUpTo"] > found["offset"]
    else:
        assert found == end


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_stream_waits_beside_a_new_segment_of_tiered_storage(
    tmp_path: Path, is_compressed: bool, is_new: bool
) -> None:
    source = tmp_path / "a-0"
    for base in (0, 10):
        indexed_segment(source, base, batch(base, base + 1))
        packing = Packing(is_compressed=is_compressed)
        aiven(tmp_path / "tier", source, base, base + 1, packing, f"{base:022d}")
    for file in (tmp_path / "tier").rglob("*.log"):
        os.utime(file, None if is_new else (1000, 1000))
    followed = stream(tmp_path / "tier")
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        found = followed.latestOffset({"a": {"0": 0}})["a"]["0"]
    assert found["offset"] == (2 if is_new else 12)
    assert len(noted) == is_new


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("cleaned", [0, 3, 5, 9, 10])
def test_a_stream_waits_for_the_part_of_a_gap_that_no_cleaner_has_removed(
    tmp_path: Path, cleaned: int, is_packed: bool
) -> None:
    logs = tmp_path / "logs"
    partition(logs, batch(0, 1, 2), "a-0")
    partition(logs, batch(10), "a-0", 10)
    (logs / "cleaner-offset-checkpoint").write_text(f"0\n1\na 0 {cleaned}\n")
    source = stream(packed(logs) if is_packed else logs)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        found = source.latestOffset({"a": {"0": 0}})["a"]["0"]
    missing = max(3, cleaned)
    if missing == 10:
        assert (found, noted) == (11, [])
    else:
        assert f"no records from offset {missing} up to 10 yet" in str(noted[0].message)
        assert found["offset"] == missing


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore:a-0 has no records")
def test_in_whatever_order_a_log_is_copied_each_offset_comes_once(
    tmp_path: Path, seed: int
) -> None:
    """Behind its beginning; with looks between the copies, limits and restarts."""
    chance = random.Random(seed)
    partition(tmp_path, batch(0), "z-0")
    source = stream(tmp_path)
    place, found = source.initialOffset(), list[str]()
    logs, end = {0: b""}, 0

    def look(*, is_new: bool = False) -> bool:
        nonlocal source, place
        source = stream(tmp_path) if is_new else source
        before, limit = place, chance.choice([Limit(), Limit(max_rows=3), Limit(max_bytes=200)])
        place = source.latestOffset(before, limit)  # type: ignore[arg-type]
        found.extend(read(source, before, place))
        return place != before

    for _ in range(4):
        changed = set[int]()
        for _ in range(chance.randrange(1, 12)):
            count, base = chance.randrange(1, 4), max(logs)
            logs[base] += batch(*range(end, end + count))
            end += count
            changed.add(base)
            if chance.random() < 0.3:
                logs[end] = b""
        order = chance.sample(sorted(changed), len(changed))
        for base in sorted(order, key=lambda base: base != 0):  # where it begins is not waited for
            partition(tmp_path, logs[base], "a-0", base)
            if chance.random() < 0.6:
                look(is_new=chance.random() < 0.3)
    while look():
        pass
    assert sorted(found) == sorted(["z-0:0", *(f"a-0:{offset}" for offset in range(end))])


@pytest.mark.filterwarnings("ignore:a-0. offsets .* are missing")
def test_one_wait_is_for_all_that_was_missing_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a cleaner works, all segments of a compacted log may be new, again and again."""
    clock = [now()]
    monkeypatch.setattr("downconvert.spark.stream.follow.now", lambda: clock[0])
    for base in range(0, 100, 10):
        partition(tmp_path, batch(base, base + 1), "a-0", base)
    source = stream(tmp_path, failOnDataLoss=False)
    with pytest.warns(RuntimeWarning, match="a-0 has no records from offset 2 up to 10 yet"):
        waiting = source.latestOffset({"a": {"0": 0}})
    assert waiting["a"]["0"]["offset"] == 2
    clock[0] += 600_000
    monkeypatch.setattr("downconvert.spark.plan.gaps._changed", lambda _: 1_000_000 * clock[0])
    found = read(source, {"a": {"0": 0}}, waiting)
    for _ in range(20):
        with warnings.catch_warnings(record=True) as warned:
            end = source.latestOffset(waiting, Limit(max_rows=15))  # type: ignore[arg-type]
        assert not any("yet" in str(one.message) for one in warned)
        if end == waiting:
            break
        found += read(source, waiting, end)
        waiting = end
    assert found == [f"a-0:{base + at}" for base in range(0, 100, 10) for at in (0, 1)]
    assert waiting == {"a": {"0": 92}}


def test_before_spark_4_2_a_stream_waits_from_where_it_was_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not say to where it has read."""
    clock = [now()]
    monkeypatch.setattr("downconvert.spark.stream.follow.now", lambda: clock[0])
    partition(tmp_path, batch(0, 1, 2), "a-0")
    source = stream(tmp_path)
    start = source.initialOffset()
    first = source.latestOffset()
    partition(tmp_path, batch(5, 6), "a-0", 5)
    with pytest.warns(RuntimeWarning, match="a-0 has no records from offset 3 up to 5 yet"):
        waiting = source.latestOffset()
    assert (first, waiting["a"]["0"]["offset"]) == ({"a": {"0": 3}}, 3)
    append(tmp_path / "a-0", batch(3, 4))
    end = source.latestOffset()
    assert end == {"a": {"0": 7}}
    assert read(source, start, end) == [f"a-0:{offset}" for offset in range(7)]
    assert stream(tmp_path).latestOffset() == end


@pytest.mark.parametrize("damage", ["zeros", "a size that leads beyond the end"])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("damaged", [(1,), (1, 3), (0, 2)])
def test_a_segment_ends_after_the_last_batch_behind_damage(
    tmp_path: Path, damaged: tuple[int, ...], is_packed: bool, damage: str
) -> None:
    batches = [batch(at, at + 1) for at in range(0, 12, 2)]
    indexed_segment(tmp_path / "a-0", 0, *batches)
    log = tmp_path / "a-0" / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes())
    size = len(batches[0])
    for at in (number * size for number in damaged):
        if damage == "zeros":
            data[at : at + size] = bytes(size)
        else:
            data[at + 8] = 0x7F
    log.write_bytes(data)
    (found,) = find_partitions([str(packed(tmp_path / "a-0") if is_packed else tmp_path)])
    (file,) = found.segments
    assert end_of(file) == 12
    assert end_of(replace(file, next_offset=11)) == 11
    assert end_of(replace(file, valid_until=5)) == 5


def test_a_segment_ends_after_its_last_batch_though_the_offset_of_another_one_is_wrong(
    tmp_path: Path,
) -> None:
    batches = [batch(at, at + 1) for at in range(0, 8, 2)]
    batches[1] = (1 << 40).to_bytes(8, "big") + batches[1][8:]
    partition(tmp_path, b"".join(batches), "a-0")
    partition(tmp_path, batch(8), "a-0", 8)
    (found,) = find_partitions([str(tmp_path)])
    assert end_of(found.segments[0]) == 8


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("high_watermark", [4, 7, 8, 20])
def test_a_stream_reads_the_offsets_of_a_gap_from_another_copy(
    tmp_path: Path, high_watermark: int, is_packed: bool
) -> None:
    """One copy ends before the gap, the leader's begins after it, and a third one has most of it. A
    stream that ends within that part has lost nothing."""
    logs = tmp_path / "kafka"
    for name, base, end in (("b1", 10, 12), ("b2", 0, 4), ("b3", 2, 8)):
        (logs / name).mkdir(parents=True)
        partition(logs / name, b"".join(map(batch, range(base, end))), "a-0", base)
    checkpoint = logs / "b1" / "replication-offset-checkpoint"
    checkpoint.write_text(f"0\n1\na 0 {high_watermark}\n")
    source = stream(packed(logs) if is_packed else logs)
    start: Json = {"a": {"0": 0}}
    source.prepareForTriggerAvailableNow()
    end = source.latestOffset(start)
    found = read(source, start, end)
    assert found == [f"a-0:{at}" for at in range(min(high_watermark, 8))]
    if high_watermark <= 8:
        assert source.latestOffset(end) == end
    else:
        with pytest.raises(DataLossError, match="no records from offset 8 up to 10"):
            source.latestOffset(end)
