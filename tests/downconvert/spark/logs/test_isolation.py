"""Committed records: by the transaction indexes, or by the control batches if there are none."""

import shutil
from pathlib import Path

import pytest

from downconvert.spark.logs.isolation import Committed, committed_of
from downconvert.spark.logs.outcomes import followed
from downconvert.spark.logs.trees import find_partitions, read_partition
from downconvert.storage.indexes.transaction_index import (
    ENTRY,
    VERSION,
    AbortedTransaction,
)
from downconvert.storage.names import OFFSET_MAX, Kind, TopicPartition, file_name
from downconvert.storage.producers.producer_state import (
    ProducerState,
    ProducerStates,
    write_snapshot,
)
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.reading import packed, rows
from tests.downconvert.spark.stream.test_follow import read, stream
from tests.downconvert.spark.tiered import local_tiered
from tests.downconvert.storage import brokers
from tests.downconvert.storage.logs import UNSYNCED, batch, indexed_segment, segment

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
COMMITTED = [dump for dump in brokers.dumps() if dump.committed and dump.directory == "log"]
BESIDE = (".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.mark.parametrize("dump", COMMITTED, ids=str)
def test_logs_without_indexes_show_committed_records(
    real: Path, dump: brokers.Dump, tmp_path: Path
) -> None:
    for partition, lines in dump.expected().items():
        directory = tmp_path / str(partition)
        shutil.copytree(real / dump.version / dump.directory / str(partition), directory)
        for file in directory.iterdir():
            if file.suffix in BESIDE:
                file.unlink()
        found = rows(directory, isolation="read_committed")
        start = found[0]["offset"] if found else 0
        assert [row["offset"] for row in found] == [
            line["o"] for line in lines if line["o"] >= start
        ]


def test_indexes_and_batches_give_the_same_transactions(real: Path) -> None:
    found = 0
    for directory in sorted((real / "3.9.1" / "log").glob("*-[0-9]")):
        if directory.name.startswith("compact"):  # cleaning loses what was aborted
            continue
        name, _, number = directory.name.rpartition("-")
        log = read_partition(TopicPartition(name, int(number)), str(directory))
        by_index = committed_of(log)
        aborted, after = followed(log, 0)
        assert min((one.first_offset for one in after), default=OFFSET_MAX) == by_index.end
        ours = {(t.producer_id, t.first_offset, t.last_offset) for t in aborted}
        assert ours == {(t.producer_id, t.first_offset, t.last_offset) for t in by_index.aborted}
        found += len(ours)
    assert found > 0


def test_a_split_gets_the_transactions_that_reach_into_it() -> None:
    entries = tuple(AbortedTransaction(1, first, first + 9, 0) for first in (0, 20, 40))
    assert Committed(99, entries).between(9, 40) == entries[:2]
    assert Committed(99, entries).between(10, 20) == ()


def test_open_transactions_count_as_aborted_for_a_coordinator_and_hide_nothing_else() -> None:
    aborted, left = (AbortedTransaction(who, who, 50 + who, 0) for who in (3, 7))
    committed = Committed(7, (aborted,), (left,))
    assert committed.throughout() == Committed(OFFSET_MAX, (aborted, left))


@pytest.mark.parametrize("snapshot", ["none", "sound", "damaged"])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_transaction_that_is_open_since_an_earlier_segment_is_seen(
    tmp_path: Path, snapshot: str, is_elsewhere: bool
) -> None:
    """The same holds without the producer snapshot that a broker writes for each segment."""
    directory = tmp_path / "logs" / "a-0"
    directory.parent.mkdir()
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    indexed_segment(directory, 0, batch(0), batch(1, 2, transactional=True, **fields), batch(3))
    indexed_segment(directory, 4, batch(4), batch(5))
    indexed_segment(directory, 6, batch(6))
    path = directory / file_name(6, Kind.SNAPSHOT)
    if snapshot == "sound":
        states = ProducerStates([ProducerState(5, 0, transaction_start=1)])
        write_snapshot(UNSYNCED, path, states)
    elif snapshot == "damaged":
        path.write_bytes(b"noise")
    (log,) = find_partitions([str(packed(directory.parent) if is_elsewhere else directory.parent)])
    assert committed_of(log).end == 1


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_transaction_behind_damage_is_open(tmp_path: Path, has_snapshot: bool) -> None:
    """The same holds if a later producer snapshot is damaged."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    batches = [batch(0), batch(1), batch(2), batch(3, transactional=True, **fields), batch(4)]
    indexed_segment(tmp_path / "a-0", 0, *batches)
    path = tmp_path / "a-0" / file_name(0, Kind.LOG)
    data = bytearray(path.read_bytes())
    size = len(batches[0])
    data[size : 2 * size] = bytes(size)
    path.write_bytes(data)
    indexed_segment(tmp_path / "a-0", 5, batch(5))
    if has_snapshot:
        (tmp_path / "a-0" / file_name(5, Kind.SNAPSHOT)).write_bytes(b"noise")
    (log,) = find_partitions([str(tmp_path)])
    assert committed_of(log).end == 3


@pytest.mark.parametrize("left", [0, 1])
def test_a_transaction_that_only_tiered_storage_has_is_open(tmp_path: Path, left: int) -> None:
    """The copy of the broker's segment stopped between two batches, or before the first one."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    batches = [batch(0), batch(1, transactional=True, **fields)]
    indexed_segment(tmp_path / "a-0", 0, *batches)
    local_tiered(tmp_path / "logs" / "tier", tmp_path / "a-0", 0)
    directory = _broker(tmp_path / "logs", "b1") / "a-0"
    indexed_segment(directory, 0, *batches[:left])
    indexed_segment(directory, 2, batch(2))
    assert [row["offset"] for row in rows(tmp_path / "logs")] == [0, 1, 2]
    assert [row["offset"] for row in rows(tmp_path / "logs", isolation="read_committed")] == [0]


@pytest.mark.parametrize("index", ["sound", "damaged"])
def test_an_aborted_transaction_that_only_tiered_storage_has_is_left_out(
    tmp_path: Path, index: str
) -> None:
    """The broker has lost the segment, and its later snapshot of producers is sound."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    marker = build_marker(ABORT, offset=2, timestamp=20, producer_id=5, producer_epoch=0)
    indexed_segment(tmp_path / "a-0", 1, batch(1, transactional=True, **fields), marker)
    entry = ENTRY.pack(VERSION if index == "sound" else 7, *AbortedTransaction(5, 1, 2, 3))
    (tmp_path / "a-0" / file_name(1, Kind.TRANSACTION_INDEX)).write_bytes(entry)
    local_tiered(tmp_path / "logs" / "tier", tmp_path / "a-0", 1)
    directory = _broker(tmp_path / "logs", "b1") / "a-0"
    indexed_segment(directory, 0, batch(0))
    indexed_segment(directory, 3, batch(3))
    write_snapshot(UNSYNCED, directory / file_name(3, Kind.SNAPSHOT), ProducerStates())
    assert [row["offset"] for row in rows(tmp_path / "logs")] == [0, 1, 3]
    found = rows(tmp_path / "logs", isolation="read_committed")
    assert [row["offset"] for row in found] == [0, 3]


def test_a_snapshot_behind_tiered_storage_says_what_was_open_before_the_log(
    tmp_path: Path,
) -> None:
    """The names of Kafka's own layout do not say where the segment in tiered storage ends."""
    indexed_segment(tmp_path / "a-0", 1, batch(1), batch(2))
    local_tiered(tmp_path / "logs" / "tier", tmp_path / "a-0", 1)
    directory = _broker(tmp_path / "logs", "b1") / "a-0"
    indexed_segment(directory, 3, batch(3))
    states = ProducerStates([ProducerState(5, 0, transaction_start=0)])
    write_snapshot(UNSYNCED, directory / file_name(3, Kind.SNAPSHOT), states)
    assert [row["offset"] for row in rows(tmp_path / "logs")] == [1, 2, 3]
    assert rows(tmp_path / "logs", isolation="read_committed") == []


def test_a_marker_that_a_later_leader_has_truncated_ends_no_transaction(tmp_path: Path) -> None:
    """Only the other copy has a snapshot of producers, which shows the transaction."""
    marker = build_marker(
        COMMIT, offset=5, timestamp=20, producer_id=5, producer_epoch=0, leader_epoch=0
    )
    for name, last in (("b1", batch(5, leader_epoch=1)), ("b2", marker)):
        indexed_segment(_broker(tmp_path, name) / "a-0", 4, batch(4, leader_epoch=0), last)
    (tmp_path / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 5\n")
    states = ProducerStates([ProducerState(5, 0, transaction_start=1)])
    write_snapshot(UNSYNCED, tmp_path / "b2" / "a-0" / file_name(4, Kind.SNAPSHOT), states)
    assert [row["offset"] for row in rows(tmp_path)] == [4, 5]
    assert rows(tmp_path, isolation="read_committed") == []


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("has_own", [False, True])
def test_an_open_transaction_that_only_another_copy_has_holds_back_what_follows(
    tmp_path: Path, is_indexed: bool, has_own: bool
) -> None:
    """A DeleteRecords request has removed its records from the leader's copy, which may have
    another open one."""
    fields = {"producer_epoch": 0, "base_sequence": 0, "leader_epoch": 0}
    earlier = [batch(0, 1, transactional=True, producer_id=5, **fields), batch(2, 3)]
    own = {"transactional": True, "producer_id": 6, **fields} if has_own else {"leader_epoch": 0}
    later = [batch(4, 5, leader_epoch=0), batch(6, 7, **own)]
    make = indexed_segment if is_indexed else segment
    make(_broker(tmp_path, "b1") / "a-0", 4, *later)
    (tmp_path / "b1" / "log-start-offset-checkpoint").write_text("0\n1\na 0 5\n")
    segment(_broker(tmp_path, "b2") / "a-0", 0, *earlier, later[0])
    assert [row["offset"] for row in rows(tmp_path)] == [5, 6, 7]
    assert rows(tmp_path, isolation="read_committed") == []


def test_an_abort_that_a_later_leader_has_truncated_does_not_count(tmp_path: Path) -> None:
    """At the same offset there is the marker that commits the transaction."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    records = [batch(0, leader_epoch=0), batch(1, leader_epoch=0, transactional=True, **fields)]
    for name, kind, epoch in (("b1", COMMIT, 1), ("b2", ABORT, 0)):
        marker = build_marker(
            kind, offset=2, timestamp=20, producer_id=5, producer_epoch=0, leader_epoch=epoch
        )
        indexed_segment(_broker(tmp_path, name) / "a-0", 0, *records, marker)
    aborted = AbortedTransaction(5, 1, 2, 3)
    path = tmp_path / "b2" / "a-0" / file_name(0, Kind.TRANSACTION_INDEX)
    path.write_bytes(ENTRY.pack(VERSION, *aborted))
    (tmp_path / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 2\n")
    found = [row["offset"] for row in rows(tmp_path, isolation="read_committed")]
    assert found == [0, 1]
    assert len(rows(tmp_path / "b2", isolation="read_committed")) == 1


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("made", "has_snapshot"),
    [("without", False), ("without", True), ("indexed", False), ("last", False)],
)
def test_an_abort_counts_though_no_transaction_index_has_it(
    tmp_path: Path, made: str, has_snapshot: bool, is_packed: bool
) -> None:
    """A segment without indexes of any kind, or behind the last snapshot of producers."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    marker = build_marker(ABORT, offset=3, timestamp=20, producer_id=5, producer_epoch=0)
    batches = [batch(0), batch(1, 2, **fields), marker, batch(4)]
    make = segment if made == "without" else indexed_segment
    (tmp_path / "logs").mkdir()
    directory = tmp_path / "logs" / "a-0"
    make(directory, 0, *batches)
    if made != "last":
        make(directory, 5, batch(5))
        if has_snapshot:
            write_snapshot(UNSYNCED, directory / file_name(5, Kind.SNAPSHOT), ProducerStates())
    path = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    found = [row["offset"] for row in rows(path, isolation="read_committed")]
    assert found == [0, 4] + ([] if made == "last" else [5])


def _broker(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_transaction_is_open_if_only_a_truncated_marker_of_another_copy_ends_it(
    tmp_path: Path, is_packed: bool
) -> None:
    """The leader's copy ends before the transaction begins, and the next leader after it."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    shared = [batch(0, 1, leader_epoch=0), batch(2, 3, leader_epoch=0)]
    marker = build_marker(
        COMMIT, offset=8, timestamp=80, producer_id=5, producer_epoch=0, leader_epoch=0
    )
    more = [batch(4, leader_epoch=0), batch(5, 6, leader_epoch=0, **fields)]
    logs = tmp_path / "logs"
    logs.mkdir()
    indexed_segment(_broker(logs, "b1") / "a-0", 0, *shared)
    (logs / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 7\n")
    rest = [batch(7, leader_epoch=0), marker]
    indexed_segment(_broker(logs, "b2") / "a-0", 0, *shared, *more, *rest)
    (logs / "b2" / "a-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    path = packed(logs) if is_packed else logs
    assert [row["offset"] for row in rows(path)] == list(range(7))
    assert [row["offset"] for row in rows(path, isolation="read_committed")] == list(range(5))


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_transaction_that_was_open_before_the_log_begins_ends_it_where_it_begins(
    tmp_path: Path, is_packed: bool
) -> None:
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    logs = tmp_path / "logs"
    logs.mkdir()
    indexed_segment(logs / "a-0", 0, batch(0), batch(1, 2, **fields), batch(3), batch(4))
    (logs / "log-start-offset-checkpoint").write_text("0\n1\na 0 3\n")
    (log,) = find_partitions([str(packed(logs) if is_packed else logs)])
    assert committed_of(log).end == 3


def test_a_snapshot_shows_an_open_transaction_though_an_index_is_damaged(tmp_path: Path) -> None:
    """No copy has the transaction's batches any more."""
    indexed_segment(tmp_path / "a-0", 3, batch(3), batch(4))
    states = ProducerStates([ProducerState(5, 0, transaction_start=1)])
    write_snapshot(UNSYNCED, tmp_path / "a-0" / file_name(3, Kind.SNAPSHOT), states)
    (tmp_path / "a-0" / file_name(3, Kind.TRANSACTION_INDEX)).write_bytes(b"noise")
    (log,) = find_partitions([str(tmp_path)])
    assert committed_of(log).end == 3


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("has_indexes", [False, True])
@pytest.mark.parametrize("kind", [ABORT, COMMIT])
@pytest.mark.parametrize(
    ("high_watermark", "expected"), [(3, [0]), (4, [0]), (5, None), (7, None), (90, None)]
)
def test_a_transaction_is_open_until_its_marker_is_below_the_high_watermark(
    tmp_path: Path,
    is_packed: bool,
    has_indexes: bool,
    kind: ControlRecordType,
    high_watermark: int,
    expected: list[int] | None,
) -> None:
    """A leader that comes back may truncate the marker, and the transaction end otherwise. In
    queries, streams and exports."""
    logs = tmp_path / "kafka"
    logs.mkdir()
    own = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    marker = build_marker(kind, offset=4, timestamp=40, producer_id=7)
    datas = [batch(0), batch(1, 2, **own), batch(3), marker, batch(5, 6)]
    (indexed_segment if has_indexes else segment)(logs / "a-0", 0, *datas)
    if has_indexes and kind is ABORT:
        index = logs / "a-0" / file_name(0, Kind.TRANSACTION_INDEX)
        index.write_bytes(ENTRY.pack(VERSION, *AbortedTransaction(7, 1, 4, 5)))
    (logs / "replication-offset-checkpoint").write_text(f"0\n1\na 0 {high_watermark}\n")
    whole = [0, 3, 5, 6] if kind is ABORT else [0, 1, 2, 3, 5, 6]
    wanted = [at for at in whole if at < high_watermark] if expected is None else expected
    path = packed(logs) if is_packed else logs
    options = {"isolation": "read_committed", "stopAtHighWatermark": "true"}
    assert [row["offset"] for row in rows(path, **options)] == wanted
    source = stream(path, isolation="read_committed")
    end = source.latestOffset({"a": {"0": 0}})
    assert read(source, {"a": {"0": 0}}, end) == [f"a-0:{at}" for at in wanted]
    with pytest.MonkeyPatch.context() as patch:
        exported(patch, path, tmp_path / "lake", committed=True)
    assert [row[2] for row in archived(tmp_path / "lake")] == wanted


def test_aborts_in_tiered_storage_count_if_the_high_watermark_is_behind_them(
    tmp_path: Path,
) -> None:
    own = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    marker = build_marker(ABORT, offset=3, timestamp=30, producer_id=7)
    indexed_segment(tmp_path / "a-0", 0, batch(0), batch(1, 2, **own), marker)
    index = tmp_path / "a-0" / file_name(0, Kind.TRANSACTION_INDEX)
    index.write_bytes(ENTRY.pack(VERSION, *AbortedTransaction(7, 1, 3, 4)))
    local_tiered(tmp_path / "both" / "tier", tmp_path / "a-0", 0)
    (tmp_path / "both" / "b1").mkdir()
    segment(tmp_path / "both" / "b1" / "a-0", 0, batch(0))
    for high_watermark, wanted in ((2, [0]), (3, [0]), (4, [0])):
        checkpoint = tmp_path / "both" / "b1" / "replication-offset-checkpoint"
        checkpoint.write_text(f"0\n1\na 0 {high_watermark}\n")
        (log,) = find_partitions([str(tmp_path / "both")])
        found = committed_of(log, high_watermark)
        assert found.end == (OFFSET_MAX if high_watermark == 4 else 1), high_watermark
        options = {"isolation": "read_committed", "stopAtHighWatermark": "true"}
        assert [row["offset"] for row in rows(tmp_path / "both", **options)] == wanted


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_an_aborted_transaction_begins_before_the_one_that_is_still_open(
    tmp_path: Path, is_indexed: bool, is_packed: bool
) -> None:
    """Producer 8 has no end yet. Batches are followed from its first one on, and producer 7 has
    begun before that."""
    data = [
        batch(0, 1, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0),
        batch(2, transactional=True, producer_id=8, producer_epoch=0, base_sequence=0),
        batch(3, transactional=True, producer_id=7, producer_epoch=0, base_sequence=2),
        build_marker(ABORT, offset=4, timestamp=0, producer_id=7),
        batch(5),
    ]
    logs = tmp_path / "logs"
    logs.mkdir()
    (indexed_segment if is_indexed else segment)(logs / "a-0", 0, *data)
    if is_indexed:
        entry = ENTRY.pack(VERSION, *AbortedTransaction(7, 0, 4, 2))
        (logs / "a-0" / file_name(0, Kind.TRANSACTION_INDEX)).write_bytes(entry)
    place = packed(logs) if is_packed else logs
    assert rows(place, isolation="read_committed") == []
    (log,) = find_partitions([str(place)])
    committed = committed_of(log)
    assert committed.end == 2
    assert [(one.first_offset, one.last_offset) for one in committed.aborted] == [(0, 4)]


@pytest.mark.parametrize(("high_watermark", "end"), [(4, 3), (5, OFFSET_MAX)])
def test_a_marker_of_another_copy_counts_only_below_the_high_watermark(
    tmp_path: Path, high_watermark: int, end: int
) -> None:
    """Only the other copy has a snapshot of producers. It shows a transaction that was open before
    the log begins."""
    marker = build_marker(COMMIT, offset=4, timestamp=40, producer_id=7, producer_epoch=0)
    data = [batch(3), marker, batch(5, 6)]
    segment(_broker(tmp_path, "b1") / "a-0", 3, *data)
    directory = _broker(tmp_path, "b2") / "a-0"
    indexed_segment(directory, 3, *data[:2])
    states = ProducerStates([ProducerState(7, 0, transaction_start=1)])
    write_snapshot(UNSYNCED, directory / file_name(3, Kind.SNAPSHOT), states)
    (log,) = find_partitions([str(tmp_path)])
    assert log.directory.endswith("b1/a-0")
    assert committed_of(log, high_watermark).end == end
