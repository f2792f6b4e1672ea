"""Segments that several leaders have copied to tiered storage: each offset is read once, however
they overlap."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from downconvert.spark.logs.overlaps import joined, layers, with_ends
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.tiers import Remote, Tier
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.stores.blobs import Blob
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.storage.names import OFFSET_MAX, Kind, State, TopicPartition, file_name
from records import RecordsError
from tests.downconvert.spark.reading import partition, rows, splits
from tests.downconvert.spark.stream.test_follow import read, stream
from tests.downconvert.spark.tiered import Packing, aiven, local_tiered
from tests.downconvert.storage.logs import batch, indexed_segment
from tests.object_store import ObjectStore

# The first and the end offset of each segment.
Spans: TypeAlias = Sequence[tuple[int, int]]

ARRANGEMENTS: Final[dict[str, Spans]] = {
    "one leader": [(0, 4), (4, 8), (8, 12)],
    "nested": [(0, 12), (3, 5)],
    "nested, then more": [(0, 9), (3, 5), (9, 12)],
    "nested twice": [(0, 12), (2, 8), (4, 6)],
    "nested one after the other": [(0, 12), (2, 4), (4, 7), (9, 10)],
    "equal base, the longer one first": [(0, 12), (0, 5)],
    "equal base, the shorter one first": [(0, 5), (0, 12)],
    "equal end": [(0, 12), (5, 12)],
    "equal": [(0, 12), (0, 12)],
    "partial overlap": [(0, 7), (4, 12)],
    "three leaders": [(0, 6), (2, 8), (4, 12)],
    "three leaders, one nested": [(0, 8), (2, 4), (4, 12)],
}


def tiered(target: Path, spans: Spans, layout: str, hurt: Iterable[tuple[int, int]] = ()) -> None:
    """Writes segments with one batch for each offset. `hurt`: batches, each as the number of a
    segment and an offset, whose bytes are damaged."""
    for number, (base, end) in enumerate(spans):
        source = target.parent / f"of {number}" / "a-0"
        source.parent.mkdir(parents=True, exist_ok=True)
        datas = {at: bytearray(batch(at)) for at in range(base, end)}
        segment = indexed_segment(source, base, *map(bytes, datas.values()))
        for at in (at for one, at in hurt if one == number):
            datas[at][-1] ^= 1
        segment.path().write_bytes(b"".join(datas.values()))
        name = f"{number:022d}"
        if layout == "kafka":
            local_tiered(target, source, base, name)
        else:
            aiven(target, source, base, end - 1, Packing(100), name)


@pytest.mark.parametrize("layout", ["aiven", "kafka"])
@pytest.mark.parametrize("spans", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_each_offset_is_read_once(tmp_path: Path, spans: Spans, layout: str) -> None:
    tiered(tmp_path / "tier", spans, layout)
    for options in ({}, {"maxPartitionBytes": 100}, {"isolation": "read_committed"}):
        found = [row["offset"] for row in rows(tmp_path / "tier", **options)]
        assert found == list(range(12)), options
    late = rows(tmp_path / "tier", startingOffsets='{"a": {"0": 5}}')
    assert [row["offset"] for row in late] == list(range(5, 12))
    source = stream(tmp_path / "tier")
    end = source.latestOffset({"a": {"0": 0}})
    assert read(source, {"a": {"0": 0}}, end) == [f"a-0:{at}" for at in range(12)]


@pytest.mark.parametrize("layout", ["aiven", "kafka"])
def test_offsets_of_a_later_segment_are_not_read_from_an_earlier_one(
    tmp_path: Path, layout: str
) -> None:
    """As far as the index leads to where that begins."""
    tiered(tmp_path / "tier", [(0, 8), (3, 12)], layout)
    (first, second) = splits(tmp_path / "tier")
    size = len(batch(0))
    assert 3 * size <= first.end <= 5 * size
    assert (second.start, second.end) == (0, 9 * size)


@pytest.mark.parametrize("layout", ["aiven", "kafka"])
@pytest.mark.parametrize("first", [2, 5, 10])
@pytest.mark.parametrize("spans", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_a_brokers_segments_go_on_where_tiered_storage_is_no_longer_needed(
    tmp_path: Path, spans: Spans, layout: str, first: int
) -> None:
    tiered(tmp_path / "both" / "tier", spans, layout)
    for end in (first + 1, 14):  # it lags behind tiered storage, or goes further
        data = b"".join(map(batch, range(first, end)))
        partition(tmp_path / "both" / "b1", data, "a-0", first)
        found = [row["offset"] for row in rows(tmp_path / "both")]
        assert found == list(range(max(12, end)))


@pytest.mark.parametrize("layout", ["aiven", "kafka"])
@pytest.mark.parametrize("spans", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_damage_in_a_segment_is_made_good_by_each_other_that_has_the_offset(
    tmp_path: Path, spans: Spans, layout: str
) -> None:
    """Two segments may be damaged at one offset: then the third has it, or it is reported."""
    chance = random.Random(str(spans))
    for number in range(6):
        path = tmp_path / str(number) / "tier"
        hurt = [
            (one, at)
            for one, (base, end) in enumerate(spans)
            for at in range(base, end)
            if chance.random() < 0.25
        ]
        tiered(path, spans, layout, hurt)
        had = {at for one, span in enumerate(spans) for at in range(*span) if (one, at) not in hurt}
        found = rows(path, mode="PERMISSIVE")
        got = [row["offset"] for row in found if row["_corrupt"] is None]
        assert got == sorted(had), hurt
        reports = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
        named = {at for one in reports for at in range(one["startOffset"], one["endOffset"] or 12)}
        assert named == set(range(12)) - had
        if named:
            with pytest.raises(RecordsError):
                rows(path)


def test_segments_of_one_leader_are_whole(tmp_path: Path) -> None:
    """So their transaction indexes count, and no other copy is looked at."""
    tiered(tmp_path / "tier", ARRANGEMENTS["one leader"], "kafka")
    (log,) = find_partitions([str(tmp_path / "tier")])
    assert [(one.next_offset, one.is_clipped) for one in log.segments] == [
        (4, False),
        (8, False),
        (12, False),
    ]
    assert log.others == ()


def test_a_damaged_end_that_a_shorter_segment_hides_is_warned_of(tmp_path: Path) -> None:
    spans = [(0, 12), (0, 9)]
    tiered(tmp_path / "tier", spans, "kafka", [(0, at) for at in range(5, 12)])
    log = next((tmp_path / "tier").rglob(f"*-{0:022d}.log"))
    size = log.stat().st_size // 12
    log.write_bytes(log.read_bytes()[: 5 * size] + b"noise" * size)
    with pytest.warns(RuntimeWarning, match="not known whether it went beyond what is read"):
        found = rows(tmp_path / "tier")
    assert [row["offset"] for row in found] == list(range(9))


@pytest.mark.others
def test_the_end_of_a_segment_takes_one_request_in_a_store(
    store: tuple[ObjectStore, Path],
) -> None:
    """If it is short. Its index is read before, if it is not."""
    spans = [(at, at + 4) for at in range(0, 40, 4)]
    tiered(store[1] / "t" / "tier", spans, "kafka")
    before = len(store[0].requests())
    find_partitions(["s3://bucket/t/tier"])
    asked = store[0].requests()[before:]
    assert [key.endswith(".log") for _, key in asked].count(True) == len(spans)


def remote(number: int, base: int, end: int | None, *, is_damaged: bool = False) -> Remote:
    blob = Blob(f"/tier/{number}.log", 1)
    file = SegmentFile("/tier", base, State.LIVE, 1, OFFSET_MAX, ((Kind.LOG, blob),))
    return Remote(file, end, is_damaged)


def test_whatever_segments_there_are_each_layer_has_an_offset_once_and_all_are_in_one() -> None:
    for seed in range(500):
        chance = random.Random(seed)
        found = []
        for number in range(chance.randrange(1, 8)):
            base = chance.randrange(12)
            end = chance.choice([None, base, *range(base + 1, base + 9)])
            found.append(remote(number, base, end, is_damaged=chance.random() < 0.2))
        parts = layers(found)
        for part in parts:
            files = [one.file for one in part]
            bases = [one.base_offset for one in files]
            assert bases == sorted(set(bases)), seed
            assert [one.next_offset for one in files[:-1]] == bases[1:], seed
            reached = -1
            for one in part:  # each of them has something that those before it lack
                end, is_first = one.end_offset, one.file.base_offset == reached
                assert end is None or end > reached or (one.is_damaged and is_first), seed
                reached = max(reached, one.file.base_offset if end is None else end)
        for one in found:
            whole = [
                part
                for part in parts
                for other in part
                if one.file.is_same_file(other.file) and not other.file.is_clipped
            ]
            assert len(whole) == 1, seed
        ends = [one.end_offset for one in found if one.end_offset is not None]
        last = parts[0][-1].file.next_offset
        assert last >= max(ends, default=0), seed


@pytest.mark.parametrize("what", ["gone", "shorter"])
def test_a_segment_that_changes_while_ends_are_read_has_none_and_the_others_have_theirs(
    tmp_path: Path, what: str
) -> None:
    def listed(base: int) -> Remote:
        indexed_segment(tmp_path / str(base), base, batch(base), batch(base + 1))
        log = tmp_path / str(base) / file_name(base, Kind.LOG)
        blob = Blob(str(log), log.stat().st_size)
        kinds = ((Kind.LOG, blob),)
        return Remote(SegmentFile("tier", base, State.LIVE, blob.size, base + 9, kinds), None)

    tier = Tier(TopicPartition("a", 0), "A" * 22)
    found = [listed(base) for base in (0, 10, 20)]
    log = tmp_path / "10" / file_name(10, Kind.LOG)
    if what == "gone":
        log.unlink()
    else:
        log.write_bytes(log.read_bytes()[:70])
    ends = [one.end_offset for one in with_ends({tier: found}, ObjectCache())[tier]]
    assert ends == [2, None, 22]


def test_a_segment_that_is_gone_hides_no_other() -> None:
    files = joined([remote(0, 0, 8), remote(1, 2, None), remote(2, 4, 12)])
    assert [(one.file.base_offset, one.file.next_offset) for one in files] == [
        (0, 2),
        (2, 4),
        (4, 12),
    ]


def test_a_segment_without_a_readable_batch_is_not_left_out() -> None:
    """Its damage is reported, and not a gap."""
    files = joined([remote(0, 0, 4), remote(1, 4, 4, is_damaged=True), remote(2, 8, 12)])
    assert [one.file.base_offset for one in files] == [0, 4, 8]
