"""All copies of a partition are one log: what one lacks is taken from another."""

import shutil
from pathlib import Path

import pytest

from downconvert.spark.errors import CorruptSegmentError, MissingOffsetsError
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.reading import packed, partition, rows, splits
from tests.downconvert.spark.stream.test_follow import read, stream
from tests.downconvert.storage.logs import batch, indexed_segment, segment

from .test_completeness import BATCHES, LEVELS, offsets, reasons, rolled

ALL = list(range(300))


def whole(path: Path, *, bases: tuple[int, ...] = (0, 100, 200)) -> Path:
    """The log that `rolled` has a part of, in segments that are rolled elsewhere."""
    path.mkdir(exist_ok=True)
    for base, after in zip(bases, (*bases[1:], 300), strict=True):
        indexed_segment(path / "a-0", base, *BATCHES[base // 10 : after // 10])
    return path / "a-0"


def streamed(path: Path) -> list[str]:
    source = stream(path)
    end = source.latestOffset({"a": {"0": 0}})
    return read(source, {"a": {"0": 0}}, end)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bases", [(0, 100, 200), (0, 50, 90, 250)])
def test_offsets_that_the_best_copy_lacks_at_its_beginning_are_read_from_another(
    tmp_path: Path, level: str, bases: tuple[int, ...]
) -> None:
    (tmp_path / "b1").mkdir()
    segment(tmp_path / "b1" / "a-0", 200, *BATCHES[20:], batch(300, leader_epoch=0))
    whole(tmp_path / "b2", bases=bases)
    if level == "record":
        assert offsets(tmp_path) == [*ALL, 300]
        assert streamed(tmp_path) == [f"a-0:{offset}" for offset in [*ALL, 300]]
    else:
        assert len(rows(tmp_path, level=level)) == 31


@pytest.mark.parametrize("keep", [0, 1000, 5000])
@pytest.mark.parametrize("bases", [(0, 100, 200), (0, 50, 90, 250)])
def test_offsets_that_the_best_copy_lacks_in_its_middle_are_read_from_another(
    tmp_path: Path, keep: int, bases: tuple[int, ...]
) -> None:
    (tmp_path / "b1").mkdir()
    directory = rolled(tmp_path / "b1", keep, is_indexed=True)
    segment(directory, 300, batch(300, leader_epoch=0))
    whole(tmp_path / "b2", bases=bases)
    assert offsets(tmp_path) == [*ALL, 300]
    assert streamed(tmp_path) == [f"a-0:{offset}" for offset in [*ALL, 300]]
    (directory / file_name(100, Kind.LOG)).unlink()
    assert offsets(tmp_path) == [*ALL, 300]
    shutil.rmtree(tmp_path / "b2")
    with pytest.raises((MissingOffsetsError, CorruptSegmentError)):
        offsets(tmp_path)


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("at", [0, 40, 99, 205, 299])
def test_damage_in_the_best_copy_loses_nothing_that_another_has(
    tmp_path: Path, at: int, is_indexed: bool
) -> None:
    (tmp_path / "b1").mkdir()
    directory = rolled(tmp_path / "b1", 1_000_000, is_indexed=is_indexed)
    log = directory / file_name(at // 100 * 100, Kind.LOG)
    data = bytearray(log.read_bytes())
    position = sum(map(len, BATCHES[at // 100 * 10 : at // 10]))
    data[position + 70] ^= 1  # in a record
    log.write_bytes(data)
    assert len(reasons(tmp_path)) == 1
    whole(tmp_path / "b2")
    (tmp_path / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert sorted(offsets(tmp_path, mode="PERMISSIVE")) == ALL
    assert reasons(tmp_path) == []
    data[position : position + 61] = bytes(61)  # now also its header
    log.write_bytes(data)
    assert offsets(tmp_path) == ALL


def test_a_short_copy_of_the_latest_epoch_goes_on_in_one_of_an_earlier_epoch(
    tmp_path: Path,
) -> None:
    """Its checkpoint says that the later epoch begins only where the other copy ends."""
    (tmp_path / "b1").mkdir()
    segment(tmp_path / "b1" / "a-0", 0, *BATCHES[:10])
    (tmp_path / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 300\n")
    whole(tmp_path / "b2")
    assert offsets(tmp_path) == ALL
    assert streamed(tmp_path) == [f"a-0:{offset}" for offset in ALL]


def test_records_that_a_later_leader_truncated_are_no_substitute(tmp_path: Path) -> None:
    (tmp_path / "b1").mkdir()
    left, leader = tmp_path / "b1" / "a-0", tmp_path / "b2" / "a-0"
    segment(left, 0, batch(0, leader_epoch=0), batch(1, 2, leader_epoch=0))
    (tmp_path / "b2").mkdir()
    log = [batch(0, leader_epoch=0), batch(1, size=20, leader_epoch=1), batch(2, leader_epoch=1)]
    damaged = bytearray(log[1])
    damaged[-1] ^= 1
    segment(leader, 0, log[0], bytes(damaged), log[2])
    (leader / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 1\n")
    with pytest.warns(RuntimeWarning, match="differ"), pytest.raises(CorruptSegmentError):
        offsets(tmp_path)
    with pytest.warns(RuntimeWarning, match="differ"):
        assert offsets(tmp_path, mode="PERMISSIVE") == [0, 2]


def test_records_that_a_request_has_deleted_stay_deleted(tmp_path: Path) -> None:
    whole(tmp_path / "b1")
    (tmp_path / "b2").mkdir()
    segment(tmp_path / "b2" / "a-0", 200, *BATCHES[20:], batch(300, leader_epoch=0))
    (tmp_path / "b1" / "log-start-offset-checkpoint").write_text("0\n1\na 0 50\n")
    assert offsets(tmp_path) == [*ALL[50:], 300]


@pytest.mark.filterwarnings("ignore:copies of a-0 differ")
@pytest.mark.parametrize("keep", [-1, -40, None])
@pytest.mark.parametrize("broken", [None, 14, 15, 16])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_records_after_a_stale_copy_begin_where_it_was_truncated(
    tmp_path: Path, is_indexed: bool, keep: int | None, broken: int | None
) -> None:
    """Its own records from there on do not count, whether they are whole, torn or damaged."""
    make = indexed_segment if is_indexed else segment
    epochs = "0\n2\n0 0\n1 150\n"
    (tmp_path / "b1").mkdir()
    (tmp_path / "b2").mkdir()
    leader, other = tmp_path / "b1" / "a-0", tmp_path / "b3" / "a-0"
    segment(leader, 200, batch(*range(200, 210), leader_epoch=1))
    (leader / "leader-epoch-checkpoint").write_text(epochs)
    stale = tmp_path / "b2" / "a-0"
    make(stale, 0, *BATCHES[:18])
    (stale / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    log = stale / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes()[:keep])
    if broken is not None:
        data[sum(map(len, BATCHES[:broken])) + 70] ^= 1
    log.write_bytes(data)
    lost = ["from 140 up to 150"] if broken == 14 else []
    found = reasons(tmp_path)
    assert "offsets 150 up to 200 are missing" in found.pop()
    assert [reason.rpartition("offsets ")[2] for reason in found] == lost
    read = [*range(150 - 10 * len(lost)), *range(200, 210)]
    assert offsets(tmp_path, mode="PERMISSIVE") == read
    (tmp_path / "b3").mkdir()
    between = [batch(*range(base, base + 10), leader_epoch=1) for base in range(150, 200, 10)]
    segment(other, 150, *between)
    (other / "leader-epoch-checkpoint").write_text(epochs)
    if not lost:
        assert offsets(tmp_path) == list(range(210))
        assert streamed(tmp_path) == [f"a-0:{offset}" for offset in range(210)]


@pytest.mark.filterwarnings("ignore:copies of a-0 differ")
@pytest.mark.parametrize("tail", [b"", bytes(4096), b"\1" * 100], ids=["whole", "zeros", "noise"])
def test_records_after_truncated_ones_hide_none_of_another_copy(
    tmp_path: Path, tail: bytes
) -> None:
    """This holds for each part of them that is read. Only the stale copy has the log's
    beginning."""
    epochs = "0\n2\n0 0\n1 150\n"
    between = [batch(*range(at, at + 10), leader_epoch=1) for at in range(150, 210, 10)]
    copies = {"b1": (200, between[5:]), "b2": (0, BATCHES[:18]), "b3": (150, between[:5])}
    for name, (base, batches) in copies.items():
        (tmp_path / name).mkdir()
        segment(tmp_path / name / "a-0", base, *batches, tail if name == "b2" else b"")
        known = "0\n1\n0 0\n" if name == "b2" else epochs
        (tmp_path / name / "a-0" / "leader-epoch-checkpoint").write_text(known)
    for first, last in ((0, 210), (100, 145), (145, 155), (150, 160), (160, 170), (175, 205)):
        bounds = {
            "startingOffsets": f'{{"a":{{"0":{first}}}}}',
            "endingOffsets": f'{{"a":{{"0":{last}}}}}',
        }
        for level in LEVELS:
            found = rows(tmp_path, level=level, **bounds)
            if level == "record":
                assert [row["offset"] for row in found] == list(range(first, last))
            else:
                bases = [row["baseOffset"] for row in found]
                assert bases == list(range(first // 10 * 10, last, 10))


@pytest.mark.parametrize("damage", [bytes(61), b"\x7f"], ids=["zeros", "too large a size"])
def test_another_copy_is_read_beyond_a_damaged_header_as_far_as_its_index_leads(
    tmp_path: Path, damage: bytes
) -> None:
    (tmp_path / "b1").mkdir()
    directory = rolled(tmp_path / "b1", 1_000_000, is_indexed=True)
    segment(directory, 300, batch(300, leader_epoch=0))
    (directory / file_name(100, Kind.LOG)).unlink()
    log = whole(tmp_path / "b2") / file_name(100, Kind.LOG)
    data = bytearray(log.read_bytes())
    at = sum(map(len, BATCHES[10:14])) + (0 if len(damage) > 1 else 8)
    data[at : at + len(damage)] = damage
    log.write_bytes(data)
    assert offsets(tmp_path, mode="PERMISSIVE") == [*ALL[:140], *ALL[150:], 300]


def test_a_stream_takes_what_a_cleaner_removed_before_the_next_copy_begins_for_cleaned(
    tmp_path: Path,
) -> None:
    """The other copy's segment has nothing of its own, and goes on where the next one begins."""
    for broker, base, cleaned in (("b1", 1, 1), ("b2", 0, 3)):
        (tmp_path / broker).mkdir()
        indexed_segment(tmp_path / broker / "a-0", base, batch(1, 2, leader_epoch=0))
        text = f"0\n1\na 0 {cleaned}\n"
        (tmp_path / broker / "cleaner-offset-checkpoint").write_text(text)
    indexed_segment(tmp_path / "b1" / "a-0", 3, batch(3, leader_epoch=0))
    assert offsets(tmp_path) == [1, 2, 3]
    source = stream(tmp_path)
    source.prepareForTriggerAvailableNow()
    end = source.latestOffset({"a": {"0": 0}})
    assert read(source, {"a": {"0": 0}}, end) == ["a-0:1", "a-0:2", "a-0:3"]


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("is_packed", [True, False])
def test_records_behind_damage_are_not_cut_by_a_copy_of_an_earlier_epoch(
    tmp_path: Path, is_indexed: bool, is_packed: bool
) -> None:
    """If nothing leads past the damage, the rest of the log is reported."""
    logs = tmp_path / "logs"
    leader, follower = logs / "b1" / "a-0", logs / "b2" / "a-0"
    leader.parent.mkdir(parents=True)
    follower.parent.mkdir()
    latest = [batch(*range(base, base + 10), leader_epoch=2) for base in range(100, 200, 10)]
    make = indexed_segment if is_indexed else segment
    make(leader, 0, *BATCHES[:10], *latest)
    log = leader / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes())
    position = len(b"".join(BATCHES[:8]))
    data[position : position + 30] = bytes(30)
    log.write_bytes(data)
    (leader / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 100\n")
    make(follower, 0, *BATCHES[:12])
    (follower / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    path = packed(logs) if is_packed else logs
    found = rows(path, mode="PERMISSIVE")
    damaged = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    assert [row["offset"] for row in found if row["_corrupt"] is None] == (
        ALL[:200] if is_indexed else ALL[:100]
    )
    assert [one["startOffset"] for one in damaged] == ([] if is_indexed else [100])


@pytest.mark.parametrize("is_packed", [True, False])
def test_offsets_of_an_empty_segment_are_read_of_another_copy_within_any_bounds(
    tmp_path: Path, is_packed: bool
) -> None:
    logs = tmp_path / "logs"
    (logs / "b1").mkdir(parents=True)
    rolled(logs / "b1", 0, is_indexed=True)
    segment(logs / "b1" / "a-0", 300, batch(300, leader_epoch=0))
    whole(logs / "b2")
    path = packed(logs) if is_packed else logs
    bounds = {
        "startingOffsets": '{"a": {"0": 20}}',
        "endingOffsets": '{"a": {"0": 45}}',
    }
    assert offsets(path, **bounds) == ALL[20:45]


def test_offsets_of_several_copies_are_read_from_that_of_the_latest_epoch(tmp_path: Path) -> None:
    """Nothing else shows what a later leader truncated: no copy has its leader epochs."""
    copies = {
        "b1": [batch(at, size=10 + epoch, leader_epoch=epoch) for at, epoch in ((0, 1), (5, 3))],
        "b2": [batch(at, size=11, leader_epoch=1) for at in range(4)],
        "b3": [batch(at, size=12, leader_epoch=2) for at in range(3)],
        "b4": [batch(at, size=11, leader_epoch=1) for at in range(5)],
    }
    for name, batches in copies.items():
        (tmp_path / name).mkdir()
        segment(tmp_path / name / "a-0", 0, *(batches if name != "b1" else batches[:1]))
    segment(tmp_path / "b1" / "a-0", 5, copies["b1"][1])
    found = [(row["offset"], len(row["value"])) for row in rows(tmp_path)]
    assert found == [(0, 11), (1, 12), (2, 12), (3, 11), (4, 11), (5, 13)]


def test_copies_that_end_alike_have_nothing_that_was_truncated(tmp_path: Path) -> None:
    for name, size in (("b1", 10), ("b2", 20)):  # of other lengths: not in sync at first sight
        (tmp_path / name).mkdir()
        segment(tmp_path / name / "a-0", 0, batch(0, 1, size=size, leader_epoch=0))
    (log,) = find_partitions([str(tmp_path)])
    assert log.superseded == ()


@pytest.mark.parametrize(("first", "last"), [(0, 13), (11, 13), (3, 27), (12, 13), (9, 11)])
def test_a_copy_gives_what_is_wanted_and_no_more(tmp_path: Path, first: int, last: int) -> None:
    (tmp_path / "b1").mkdir()
    log = rolled(tmp_path / "b1", 1_000_000, is_indexed=True) / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes())
    data[len(BATCHES[0]) + 70] ^= 1  # of the offsets 10 up to 20
    log.write_bytes(data)
    whole(tmp_path / "b2")
    bounds = {
        "startingOffsets": f'{{"a":{{"0":{first}}}}}',
        "endingOffsets": f'{{"a":{{"0":{last}}}}}',
    }
    assert offsets(tmp_path, **bounds) == list(range(first, last))


def test_a_cleaner_of_another_copy_does_not_explain_all_missing_offsets(
    tmp_path: Path,
) -> None:
    for name, first in (("b1", b""), ("b2", batch(0, 1, leader_epoch=0))):
        (tmp_path / name).mkdir()
        segment(tmp_path / name / "a-0", 0, first)
        segment(tmp_path / name / "a-0", 20, batch(20, leader_epoch=0))
    segment(tmp_path / "b1" / "a-0", 21, batch(21, leader_epoch=0))
    (tmp_path / "b2" / "cleaner-offset-checkpoint").write_text("0\n1\na 0 10\n")
    found = rows(tmp_path, mode="PERMISSIVE")
    assert [row["offset"] for row in found if row["_corrupt"] is None] == [0, 1, 20, 21]
    told = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    assert [(one["startOffset"], one["endOffset"]) for one in told] == [(10, 20)]


def test_records_that_a_later_leader_truncated_are_not_read_from_the_earlier_copy(
    tmp_path: Path,
) -> None:
    """Old records do not have an epoch; the checkpoints do."""
    older = partition(tmp_path / "b1", b"".join(batch(at, magic=1) for at in range(16)), "a-0")
    (older / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    new = [batch(at, at + 1, leader_epoch=1, size=40) for at in (10, 12, 14)]
    flipped = new[1][:-1] + bytes([new[1][-1] ^ 1])
    newer = partition(tmp_path / "b2", new[0] + flipped + new[2], "a-0", 10)
    (newer / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 8\n")
    with pytest.warns(RuntimeWarning, match="copies of a-0 differ"):
        found = rows(tmp_path, mode="PERMISSIVE")
    assert [row["offset"] for row in found if not row["_corrupt"]] == [*range(8), 10, 11, 14, 15]
    told = [row["_corrupt"] for row in found if row["_corrupt"]]
    assert [(one["startOffset"], one["endOffset"]) for one in told] == [(8, 10), (12, 14)]


def test_an_earlier_copy_in_a_store_is_asked_only_for_offsets_that_the_next_one_lacks(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "logs"
    for name, first in (("b1", 0), ("b2", 200)):
        (logs / name).mkdir(parents=True)
        more = [batch(300, leader_epoch=0)] if first else []
        indexed_segment(logs / name / "a-0", first, *BATCHES[first // 10 :], *more)
    path = packed(logs)
    assert offsets(path) == [*ALL, 300]
    before, _ = sorted(splits(path), key=lambda one: one.first_offset)
    size = sum(map(len, BATCHES[:20]))
    assert size <= before.end <= size + 2 * max(map(len, BATCHES))


def test_offsets_that_the_cleaners_of_two_copies_removed_are_not_missing(tmp_path: Path) -> None:
    """The copies in any order. No copy has had the offsets from 5 up to 10."""
    logs = {
        "b1": {20: [batch(20, leader_epoch=0), batch(21, leader_epoch=0)]},
        "b2": {0: [batch(0, 1, leader_epoch=0)], 20: [batch(20, leader_epoch=0)]},
        "b3": {10: [], 20: [batch(20, leader_epoch=0)]},
        "b4": {2: [], 20: [batch(20, leader_epoch=0)]},
    }
    for last, first in (("b3", "b4"), ("b4", "b3")):
        cleaned = {"b1": 0, "b2": 0, "b3": 20, "b4": 5}
        path = tmp_path / first
        names = {"b1": "b1", "b2": "b2", first: "b3", last: "b4"}
        for copy, name in names.items():
            (path / name).mkdir(parents=True)
            for base, batches in logs[copy].items():
                segment(path / name / "a-0", base, *batches)
            text = f"0\n1\na 0 {cleaned[copy]}\n"
            (path / name / "cleaner-offset-checkpoint").write_text(text)
        told = [row["_corrupt"] for row in rows(path, mode="PERMISSIVE") if row["_corrupt"]]
        assert [(one["startOffset"], one["endOffset"]) for one in told] == [(5, 10)]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("is_packed", [True, False])
def test_a_batch_that_seems_to_be_cut_off_is_not_the_end_of_a_log(
    tmp_path: Path, is_packed: bool, copies: int
) -> None:
    """Its size leads beyond the segment, and the index to the batch behind it."""
    logs = tmp_path / "logs"
    for name, count in (("b1", 10), ("b2", 6))[:copies]:
        (logs / name).mkdir(parents=True)
        indexed_segment(logs / name / "a-0", 0, *BATCHES[:count])
    log = logs / "b1" / "a-0" / file_name(0, Kind.LOG)
    data = bytearray(log.read_bytes())
    data[sum(map(len, BATCHES[:3])) + 8] = 0x7F
    log.write_bytes(data)
    path = packed(logs) if is_packed else logs
    wanted = [at for at in ALL[:100] if copies == 2 or not 30 <= at < 40]
    assert offsets(path, mode="PERMISSIVE") == wanted
    source = stream(path, mode="DROPMALFORMED")
    end = source.latestOffset({"a": {"0": 0}})
    assert end == {"a": {"0": {"offset": 100, "leaderEpoch": 0}}}
    assert read(source, {"a": {"0": 0}}, end) == [f"a-0:{at}" for at in wanted]
