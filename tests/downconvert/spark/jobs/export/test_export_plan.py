"""A run of an export adds the offsets within bounds that the target lacks."""

import warnings
from pathlib import Path

import pytest

from downconvert.spark.jobs.export.export_manifest import Exported
from downconvert.spark.jobs.export.export_plan import (
    BETWEEN,
    Bound,
    Settings,
    all_facts,
    bounds_of,
    check_same,
    end_of,
    identity_of,
    plan_of,
    without,
)
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage import TopicPartition
from downconvert.storage.checkpoints.checkpoint import write_offsets
from downconvert.storage.disk.files import DISK
from tests.downconvert.spark.reading import packed
from tests.downconvert.storage.logs import batch, indexed_segment, segment

A = TopicPartition("a", 0)
WATERMARKS = "replication-offset-checkpoint"


def logs(path: Path) -> list[PartitionLog]:
    return find_partitions([str(path)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """a-0 has the offsets 0-9, b-1 has 20-29; the last batch of each has two records."""
    for name, base in (("a-0", 0), ("b-1", 20)):
        offsets = [*((base + at,) for at in range(8)), (base + 8, base + 9)]
        segment(tmp_path / name, base, *(batch(*one) for one in offsets))
    return tmp_path


def test_damage_at_the_end_ends_the_run_or_is_left_out(tmp_path: Path) -> None:
    good = [batch(n, n + 1) for n in range(0, 6, 2)]
    log = segment(tmp_path / "a-0", 0, *good)
    assert end_of(logs(tmp_path)[0], Settings()) == (6, True)
    log.path().write_bytes(b"".join(good) + b"\xff" * 100)
    assert end_of(logs(tmp_path)[0], Settings()) == (6, False)
    assert end_of(logs(tmp_path)[0], Settings(skip_damaged=True)) == (6, True)
    log.path().write_bytes(b"".join(good) + batch(6)[:-1])
    assert end_of(logs(tmp_path)[0], Settings()) == (6, True)  # the next one is being written


def test_an_export_of_committed_records_ends_at_the_last_stable_offset(tmp_path: Path) -> None:
    is_open = {
        "producer_id": 5,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }
    segment(tmp_path / "a-0", 0, batch(0), batch(1), batch(2, **is_open), batch(3))
    assert end_of(logs(tmp_path)[0], Settings(committed=True)) == (2, True)
    assert end_of(logs(tmp_path)[0], Settings()) == (4, True)
    found = bounds_of(logs(tmp_path), Settings(committed=True, past_high_watermark=True))
    assert found[A].end == 2


def test_an_export_ends_at_the_high_watermark_unless_it_may_go_further(path: Path) -> None:
    write_offsets(DISK, path / WATERMARKS, {A: 4, TopicPartition("b", 1): 99})
    found = bounds_of(logs(path), Settings())
    assert found[A] == Bound(0, 4, True, 10)
    assert found[TopicPartition("b", 1)] == Bound(20, 30, True, 30)
    found = bounds_of(logs(path), Settings(past_high_watermark=True))
    assert found[A] == Bound(0, 10, True, 10)


def test_partitions_without_a_high_watermark_are_named(path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="has a high watermark of a-0, b-1: exported up to"):
        found = bounds_of(logs(path), Settings())
    assert found[A] == Bound(0, 10, True, 10)


def test_damage_behind_the_bound_does_not_end_the_run(path: Path) -> None:
    log = segment(path / "a-0", 0, *(batch(n) for n in range(8)), b"\xff" * 100, batch(9))
    write_offsets(DISK, path / WATERMARKS, {A: 7, TopicPartition("b", 1): 30})
    assert bounds_of(logs(path), Settings())[A] == Bound(0, 7, True, 8)
    write_offsets(DISK, path / WATERMARKS, {A: 8, TopicPartition("b", 1): 30})
    assert bounds_of(logs(path), Settings())[A] == Bound(0, 8, True, 8)
    write_offsets(DISK, path / WATERMARKS, {A: 9, TopicPartition("b", 1): 30})
    assert bounds_of(logs(path), Settings())[A] == Bound(0, 8, False, 8)
    log.release()


def test_only_offsets_between_the_named_ones_are_planned(path: Path) -> None:
    between = (
        ("startingOffsets", '{"a":{"0":3},"b":{"1":20}}'),
        ("endingOffsets", '{"a":{"0":7},"b":{"1":25}}'),
    )
    found = bounds_of(logs(path), Settings(past_high_watermark=True, between=between))
    assert [one[:2] for one in found.values()] == [(3, 7), (20, 25)]
    with pytest.raises(ValueError, match=f"columns: an export takes {BETWEEN[0]}"):
        Settings(between=(("columns", "offset"),))


@pytest.mark.parametrize(
    ("between", "words"),
    [
        ({"startingOffsets": "sometime"}, "startingOffsets"),
        ({"startingOffsets": "latest"}, "cannot be 'latest'"),
        ({"endingOffsets": "earliest"}, "cannot be 'earliest'"),
        ({"startingTimestamp": "6", "endingTimestamp": "5"}, "Timestamp"),
        ({"startingOffsets": '{"a":{"0":7}}', "endingOffsets": '{"a":{"0":3}}'}, "Offsets"),
    ],
    ids=str,
)
def test_bounds_that_select_nothing_are_refused_before_a_run(
    between: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Settings(between=tuple(between.items()))


@pytest.mark.parametrize(
    ("there", "bound", "expected", "is_bounded"),
    [
        ([], Bound(0, 10, True, 10), (0, 10), True),
        ([(0, 4)], Bound(0, 10, True, 10), (4, 10), True),
        ([(0, 10)], Bound(0, 10, True, 10), None, True),
        ([(0, 9)], Bound(0, 10, True, 10), (9, 10), True),
        ([(0, 10)], Bound(0, 10, False, 10), (10, 10), False),  # the damage is read, and said
        ([(0, 12)], Bound(0, 10, False, 12), (12, 12), False),
        ([(2, 4), (6, 8)], Bound(2, 10, True, 10), (4, 10), True),
        ([(5, 10)], Bound(0, 10, True, 10), (0, 10), True),
    ],
)
def test_a_plan_has_the_ranges_that_the_target_lacks(
    path: Path,
    there: list[tuple[int, int]],
    bound: Bound,
    expected: tuple[int, int] | None,
    is_bounded: bool,
) -> None:
    exported = Exported("read_uncommitted", ranges={A: there} if there else {})
    found = plan_of(logs(path)[:1], {A: bound}, exported)
    assert found.ranges == ({} if expected is None else {A: expected})
    assert found.is_bounded is is_bounded


def test_records_that_were_deleted_before_their_export_are_reported(path: Path) -> None:
    (log,) = logs(path)[1:]
    name = log.topic_partition
    bound = Bound(20, 30, True, 30)
    exported = Exported("read_uncommitted", ranges={name: [(0, 15)]})
    with pytest.warns(RuntimeWarning, match="b-1: offsets 15 up to 20 were deleted"):
        assert plan_of([log], {name: bound}, exported).ranges == {name: (20, 30)}


def test_a_log_that_ends_before_what_was_exported_was_truncated(path: Path) -> None:
    bound = Bound(0, 10, True, 10)
    exported = Exported("read_uncommitted", ranges={A: [(0, 11)]})
    with pytest.warns(RuntimeWarning, match="a-0 ends at 10 and was exported up to 11"):
        assert not plan_of(logs(path)[:1], {A: bound}, exported).ranges


def test_a_target_of_another_cluster_or_topic_is_refused() -> None:
    there = Exported("read_uncommitted", "one", {"a": "A", "b": "B"})
    check_same(there, Exported("read_uncommitted", "one", {"a": "A", "c": "C"}), "target")
    check_same(there, Exported("read_uncommitted", None, {}), "target")
    check_same(Exported("read_uncommitted"), there, "target")
    with pytest.raises(JobError, match="of the cluster one, and these logs are of other"):
        check_same(there, Exported("read_uncommitted", "other"), "target")
    with pytest.raises(JobError, match="b was deleted and recreated"):
        check_same(there, Exported("read_uncommitted", "one", {"a": "A", "b": "C"}), "target")


@pytest.mark.parametrize(
    ("lost", "left"),
    [
        ([], [(5, 10)]),
        ([(0, 5), (10, 20)], [(5, 10)]),
        ([(0, 6)], [(6, 10)]),
        ([(9, 20)], [(5, 9)]),
        ([(8, 9), (6, 7)], [(5, 6), (7, 8), (9, 10)]),
        ([(6, 8), (7, 9)], [(5, 6), (9, 10)]),
        ([(0, 20)], []),
        ([(12, 20)], [(5, 10)]),
        ([(7, 8), (12, 20)], [(5, 7), (8, 10)]),
    ],
)
def test_a_range_without_others(lost: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    assert without((5, 10), lost) == left


def test_ranges_within_each_other_are_left_out_once() -> None:
    assert without((0, 20), [(2, 10), (4, 6), (10, 11), (15, 30)]) == [(0, 2), (11, 15)]
    assert without((5, 20), [(0, 5), (5, 7), (20, 22)]) == [(7, 20)]
    assert without((5, 20), [(0, 30)]) == []


def test_damage_at_the_end_of_one_log_must_end_the_run_whatever_others_have(path: Path) -> None:
    both = logs(path)
    names = [log.topic_partition for log in both]
    for is_sound in ((False, True), (True, False)):
        bounds = {
            name: Bound(log.start_offset, log.start_offset + 10, sound, 30)
            for name, log, sound in zip(names, both, is_sound, strict=True)
        }
        assert not plan_of(both, bounds, Exported("read_uncommitted")).is_bounded


def test_one_broker_that_says_its_cluster_is_enough(tmp_path: Path) -> None:
    for broker, names in (("b1", ["a-0", "c-3"]), ("b2", ["b-1"])):
        for name in names:
            (tmp_path / broker).mkdir(exist_ok=True)
            segment(tmp_path / broker / name, 0, batch(0))
    meta = "version=1\ncluster.id=one\nnode.id=7\n"
    (tmp_path / "b1" / "meta.properties").write_text(meta)
    for found in (logs(tmp_path), logs(tmp_path)[:2], logs(tmp_path)[1:]):
        assert identity_of(found, all_facts(found), "read_committed").cluster_id == "one"


def test_a_log_ends_where_its_longest_copy_ends(tmp_path: Path) -> None:
    """The leader's copy lacks the end of its own first epoch."""
    for name, count in (("b1", 4), ("b2", 6)):
        (tmp_path / name).mkdir()
        segment(tmp_path / name / "a-0", 0, *(batch(at, leader_epoch=0) for at in range(count)))
    (tmp_path / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 6\n")
    assert end_of(logs(tmp_path)[0], Settings()) == (6, True)


@pytest.mark.parametrize(("count", "more"), [(20, ": exported"), (23, " and 3 more: exported")])
def test_a_warning_names_twenty_partitions(tmp_path: Path, count: int, more: str) -> None:
    for number in range(count):
        segment(tmp_path / f"a-{number}", 0, batch(0))
    with pytest.warns(RuntimeWarning, match=rf"watermark of a-0, .*a-19{more}"):
        bounds_of(logs(tmp_path), Settings())


@pytest.mark.parametrize("there", [[], [(0, 4)], [(0, 10)], [(3, 4), (6, 10)]])
def test_a_run_that_goes_on_where_the_last_one_ended_warns_of_nothing(
    path: Path, there: list[tuple[int, int]]
) -> None:
    exported = Exported("read_uncommitted", ranges={A: there} if there else {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan_of(logs(path)[:1], {A: Bound(0, 10, True, 10)}, exported)
        plan_of(logs(path)[:1], {A: Bound(12, 15, True, 15)}, exported)  # as the options say
        plan_of(logs(path)[:1], {A: Bound(0, 3, True, 10)}, exported)  # the high watermark is lower
        bounds_of(logs(path), Settings(past_high_watermark=True))  # none is known, or asked for


def test_a_log_whose_records_were_all_deleted_ends_where_it_begins(path: Path) -> None:
    (path / "log-start-offset-checkpoint").write_text("0\n1\na 0 15\n")
    assert end_of(logs(path)[0], Settings()) == (15, True)


@pytest.mark.parametrize("deleted", [0, 3, 7, 8])
def test_a_log_whose_deleted_records_are_damaged_is_exported_to_its_end(
    tmp_path: Path, deleted: int
) -> None:
    """A small log in a store is read without its index, so its last batch is found behind the
    damage."""
    batches = [batch(at, at + 1) for at in range(0, 8, 2)]
    (tmp_path / "logs").mkdir()
    log = indexed_segment(tmp_path / "logs" / "a-0", 0, *batches).path()
    batches[1] = b"\xff" * 61 + batches[1][61:]
    log.write_bytes(b"".join(batches))
    (tmp_path / "logs" / "log-start-offset-checkpoint").write_text(f"0\n1\na 0 {deleted}\n")
    assert end_of(logs(packed(tmp_path / "logs"))[0], Settings()) == (8, True)
