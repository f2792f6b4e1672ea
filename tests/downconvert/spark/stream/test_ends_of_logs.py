"""A stream at the end of a log: damage there, a batch that is not complete, a truncation."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.stream.followed_logs import FollowedLog
from downconvert.storage.names import Kind, file_name
from records import ControlRecordType, build_marker
from tests.damage import damaged
from tests.downconvert.spark.reading import packed, partition
from tests.downconvert.storage.logs import batch, indexed_segment

from .test_follow import Limit, read, stream


@pytest.mark.parametrize("copies", [1, 2])
def test_a_stream_that_ends_fails_at_damage_behind_which_nothing_can_be_read(
    tmp_path: Path, copies: int
) -> None:
    batches = [batch(offset, leader_epoch=0) for offset in range(4)]
    for number in range(copies):
        broken = bytes(61) + batches[2][61:]  # a header of zeros
        partition(tmp_path / f"b{number}", b"".join((*batches[:2], broken, batches[3])), "a-0")
    source = stream(tmp_path)
    source.prepareForTriggerAvailableNow()
    start = {"a": {"0": 0}}
    end = source.latestOffset(start)
    assert read(source, start, end) == ["a-0:0", "a-0:1"]
    with pytest.raises(DataLossError, match="a-0 is damaged after offset 2"):
        source.latestOffset(end)
    source = stream(tmp_path, failOnDataLoss=False)
    source.prepareForTriggerAvailableNow()
    with pytest.warns(RuntimeWarning, match="a-0 is damaged after offset 2"):
        assert source.latestOffset(end) == end


@pytest.mark.parametrize("copies", [1, 2])
def test_a_stream_reads_a_segment_up_to_a_last_batch_with_a_wrong_offset(
    tmp_path: Path, copies: int
) -> None:
    batches = [batch(offset, leader_epoch=0) for offset in range(100, 104)]
    wrong = batches[3][:7] + bytes([3]) + batches[3][8:]
    for number in range(copies):
        broker = tmp_path / f"b{number}"
        partition(broker, batches[0], "a-0", 100)
        partition(broker, b"".join((*batches[1:3], wrong)), "a-0", 101)
    source = stream(tmp_path)
    source.prepareForTriggerAvailableNow()
    start = {"a": {"0": 100}}
    end = source.latestOffset(start)
    assert read(source, start, end) == ["a-0:100", "a-0:101", "a-0:102"]
    with pytest.raises(DataLossError, match="a-0 is damaged after offset 103"):
        source.latestOffset(end)


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_stream_reads_from_another_copy_what_damage_at_the_end_of_the_leaders_hides(
    tmp_path: Path, is_packed: bool
) -> None:
    """As a query does. It is not known where the leader's copy ended, so this may be a loss."""
    batches = [batch(offset, leader_epoch=0) for offset in range(4)]
    broken = bytes(61) + batches[2][61:]
    leader = partition(tmp_path / "logs" / "b1", b"".join((*batches[:2], broken)), "a-0")
    (leader / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 9\n")
    partition(tmp_path / "logs" / "b2", b"".join(batches), "a-0")
    path = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    source = stream(path)
    source.prepareForTriggerAvailableNow()
    end = source.latestOffset({"a": {"0": 0}})
    assert read(source, {"a": {"0": 0}}, end) == [f"a-0:{offset}" for offset in range(4)]
    with pytest.raises(DataLossError, match="a-0 is damaged after offset 4"):
        source.latestOffset(end)
    source = stream(path, failOnDataLoss=False)
    source.prepareForTriggerAvailableNow()
    with pytest.warns(RuntimeWarning, match="a-0 is damaged after offset 4"):
        assert source.latestOffset(end) == end


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_stream_does_not_skip_what_a_last_batch_with_too_many_offsets_hides(
    tmp_path: Path, copies: int, is_packed: bool
) -> None:
    """Its checksum shows that the number may be wrong. The log goes on in another copy."""
    logs, batches = tmp_path / "logs", [batch(at, at + 1, leader_epoch=0) for at in range(0, 12, 2)]
    wrong = damaged(batches[2], field="last_offset_delta", to=100, crc="stale")
    partition(logs / "b1", b"".join([*batches[:2], wrong]), "a-0")
    if copies == 2:
        partition(logs / "b2", b"".join(batches[:3]), "a-0")

    def place() -> Path:
        return packed(logs) if is_packed else logs

    source = stream(place(), mode="DROPMALFORMED")
    end = source.latestOffset({"a": {"0": 0}})
    assert end == {"a": {"0": {"offset": 2 * copies + 2, "leaderEpoch": 0}}}
    ending = stream(place(), mode="DROPMALFORMED")
    ending.prepareForTriggerAvailableNow()
    with pytest.raises(DataLossError, match=f"a-0 is damaged after offset {2 * copies + 2}"):
        ending.latestOffset(end)
    partition(logs / "b2", b"".join(batches), "a-0")
    place()
    later = source.latestOffset(end)
    assert read(source, end, later) == [f"a-0:{at}" for at in range(2 * copies + 2, 12)]


def test_a_stream_that_does_not_end_waits_at_damage_which_a_copy_may_mend(tmp_path: Path) -> None:
    """As a batch that is only half copied yet."""
    batches = [batch(offset, leader_epoch=0) for offset in range(4)]
    broken = bytes(61) + batches[2][61:]
    partition(tmp_path, b"".join((*batches[:2], broken, batches[3])), "a-0")
    source = stream(tmp_path)
    end = source.latestOffset({"a": {"0": 0}})
    assert read(source, {"a": {"0": 0}}, end) == ["a-0:0", "a-0:1"]
    assert source.latestOffset(end) == end
    partition(tmp_path, b"".join(batches), "a-0")
    assert read(source, end, source.latestOffset(end)) == ["a-0:2", "a-0:3"]


@pytest.mark.parametrize(("deleted", "end"), [(0, 6), (5, 6), (8, 8)])
def test_a_log_ends_no_earlier_than_what_a_request_has_deleted(
    tmp_path: Path, deleted: int, end: int
) -> None:
    """Damage follows the last batch that can be read."""
    batches = [bytearray(batch(at, at + 1)) for at in range(0, 8, 2)]
    log = indexed_segment(tmp_path / "a-0", 0, *map(bytes, batches)).path()
    for number in (1, 3):
        batches[number][:61] = b"\xff" * 61
    log.write_bytes(b"".join(batches))
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\na 0 {deleted}\n")
    source = stream(tmp_path)
    start = source.initialOffset()
    assert start == {"a": {"0": deleted}}
    assert source.latestOffset(start) == {"a": {"0": end}}


def test_a_stream_of_a_store_goes_on_behind_damage_up_to_the_last_batch(tmp_path: Path) -> None:
    """Its leader epoch does not matter."""
    last = [batch(2, leader_epoch=0), batch(3, leader_epoch=1), batch(4, leader_epoch=2)]
    first, damaged = batch(0, leader_epoch=0), bytearray(batch(1, leader_epoch=0))
    (tmp_path / "logs").mkdir()
    indexed_segment(tmp_path / "logs" / "a-0", 0, first, bytes(damaged), *last)
    damaged[16] = 9  # its format
    log = tmp_path / "logs" / "a-0" / file_name(0, Kind.LOG)
    log.write_bytes(first + bytes(damaged) + b"".join(last))
    source = stream(packed(tmp_path / "logs"), mode="DROPMALFORMED")
    end = source.latestOffset({"a": {"0": 0}})
    assert end == {"a": {"0": {"offset": 5, "leaderEpoch": 2}}}
    assert read(source, {"a": {"0": 0}}, end) == ["a-0:0", "a-0:2", "a-0:3", "a-0:4"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_stream_goes_on_behind_a_batch_whose_size_leads_beyond_the_end(
    tmp_path: Path, is_packed: bool
) -> None:
    """Zeros follow the last batch, as in a preallocated file."""
    batches = [batch(offset, size=100_000) for offset in range(3)]
    directory = tmp_path / "logs" / "a-0"
    directory.parent.mkdir()
    indexed_segment(directory, 0, *batches)
    data = bytearray(b"".join(batches)) + bytes(100)
    data[len(batches[0]) + 8] = 0x7F
    (directory / file_name(0, Kind.LOG)).write_bytes(data)
    path = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    source = stream(path, mode="DROPMALFORMED")
    end = source.latestOffset({"a": {"0": 0}})
    assert read(source, {"a": {"0": 0}}, end) == ["a-0:0", "a-0:2"]


def test_a_torn_batch_or_zeros_are_the_end_of_a_log_for_a_stream_that_ends(tmp_path: Path) -> None:
    for rest in (batch(1)[:-1], batch(1)[:5], bytes(100)):
        partition(tmp_path, batch(0) + rest, "a-0")
        source = stream(tmp_path)
        source.prepareForTriggerAvailableNow()
        end = source.latestOffset({"a": {"0": 0}})
        assert source.latestOffset(end) == end


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_truncated_log_that_is_shorter_now_is_read_from_where_it_differs(
    tmp_path: Path, checkpoint: bool
) -> None:
    old = [batch(offset, leader_epoch=0) for offset in range(6)]
    directory = partition(tmp_path, b"".join(old), "a-0")
    end = stream(tmp_path).latestOffset({"a": {"0": 0}})
    new = [batch(offset, leader_epoch=1) for offset in (2, 3)]
    partition(tmp_path, b"".join(old[:2] + new), "a-0")
    if checkpoint:
        (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 2\n")
    with pytest.raises(DataLossError, match="a-0 ends at 4, and was read up to 6"):
        stream(tmp_path).latestOffset(end)
    source = stream(tmp_path, failOnDataLoss=False)
    with pytest.warns(RuntimeWarning, match="a-0 ends at 4"):
        after = source.latestOffset(end)
    with pytest.warns(RuntimeWarning, match="a-0 ends at 4"):
        found = read(source, end, after)
    assert found == ["a-0:2", "a-0:3"]


def test_damage_behind_the_high_watermark_fails_no_stream_that_ends(tmp_path: Path) -> None:
    partition(tmp_path, batch(0) + batch(1) + bytes(61) + b"noise", "a-0")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\na 0 1\n")
    source = stream(tmp_path)
    source.prepareForTriggerAvailableNow()
    end = source.latestOffset({"a": {"0": 0}})
    assert source.latestOffset(end) == end == {"a": {"0": 1}}


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(("given", "begins"), [(2, 5), (6, 6), (99, 8), (-2, 5), (-1, 8)])
def test_a_stream_begins_within_the_log(
    tmp_path: Path, given: int, begins: int, is_packed: bool
) -> None:
    partition(tmp_path / "logs", batch(5, 6, 7), "a-0", 5)
    path = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    source = stream(path, startingOffsets=f'{{"a":{{"0":{given}}}}}')
    assert source.initialOffset() == {"a": {"0": begins}}


@pytest.mark.parametrize("is_gzipped", [False, True])
def test_a_stream_goes_as_far_as_another_copy_if_the_leaders_has_nothing(
    tmp_path: Path, is_gzipped: bool
) -> None:
    """The leader's epochs say that the log went further."""
    leader = partition(tmp_path / "b1", b"", "a-0")
    (leader / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 6\n")
    partition(tmp_path / "b2", b"".join(batch(at, leader_epoch=0) for at in range(6)), "a-0")
    if is_gzipped:
        log = leader / file_name(0, Kind.LOG)
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(b""))
        log.unlink()
    source = stream(tmp_path)
    source.prepareForTriggerAvailableNow()
    end = source.latestOffset({"a": {"0": 0}})
    assert end == {"a": {"0": {"offset": 6, "leaderEpoch": 0}}}
    assert read(source, {"a": {"0": 0}}, end) == [f"a-0:{at}" for at in range(6)]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_log_that_was_truncated_and_is_as_long_again_is_of_its_new_epoch(
    tmp_path: Path, is_packed: bool
) -> None:
    """Else it would be taken for truncated again and again."""
    logs = tmp_path / "logs"
    path = logs.with_name("logs.tar") if is_packed else logs
    old = [batch(at, leader_epoch=3) for at in range(6)]
    partition(logs, b"".join(old), "a-0")
    packed(logs)
    source = stream(path, failOnDataLoss=False)
    place = source.latestOffset({"a": {"0": 0}})
    new = [batch(at, leader_epoch=5, size=30) for at in range(2, 6)]
    partition(logs, b"".join(old[:2] + new), "a-0")
    packed(logs)
    with pytest.warns(RuntimeWarning, match="a-0 was truncated at 2"):
        end = source.latestOffset(place)
    assert end == {"a": {"0": {"offset": 6, "leaderEpoch": 5}}}
    assert source.latestOffset(end) == end


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_log_whose_records_were_all_deleted_is_followed_from_where_it_begins(
    tmp_path: Path, is_packed: bool
) -> None:
    logs = tmp_path / "logs"
    path = logs.with_name("logs.tar") if is_packed else logs
    partition(logs, batch(0, 1, 2), "a-0")
    (logs / "log-start-offset-checkpoint").write_text("0\n1\na 0 7\n")
    packed(logs)
    source = stream(path)
    start = source.initialOffset()
    assert start == source.latestOffset(start) == {"a": {"0": 7}}


@pytest.mark.parametrize("is_packed", [False, True])
def test_one_record_that_was_deleted_unread_is_a_loss(tmp_path: Path, is_packed: bool) -> None:
    partition(tmp_path / "logs", batch(5, 6), "a-0", 5)
    path = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    with pytest.raises(DataLossError, match="a-0 begins at 5; offsets from 4 on were deleted"):
        stream(path).latestOffset({"a": {"0": 4}})
    assert stream(path).latestOffset({"a": {"0": 5}}) == {"a": {"0": 7}}


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("bases", "log_start", "end"), [([0], 0, 5), ([0], 3, 5), ([0, 7], 0, 7), ([0, 7], 7, 7)]
)
def test_a_log_whose_last_records_are_gone_ends_where_its_last_segment_begins(
    tmp_path: Path, bases: list[int], log_start: int, end: int, is_packed: bool
) -> None:
    """Only its first segment has records: five of them."""
    (tmp_path / "logs").mkdir()
    for base in bases:
        indexed_segment(tmp_path / "logs" / "a-0", base, *([] if base else [batch(*range(5))]))
    (tmp_path / "logs" / "log-start-offset-checkpoint").write_text(f"0\n1\na 0 {log_start}\n")
    path = packed(tmp_path / "logs") if is_packed else tmp_path / "logs"
    found = stream(path, startingOffsets="latest").initialOffset()
    assert found == {"a": {"0": end}}
    start = stream(path).initialOffset()
    assert start == {"a": {"0": log_start}}


@pytest.mark.parametrize("place", ["mounted", "packed", "two copies"])
@pytest.mark.parametrize(
    ("high_watermark", "end"), [(1, 1), (2, 1), (3, 1), (4, 4), (5, 5), (9, 5)]
)
def test_a_transaction_is_open_if_its_marker_is_not_below_the_high_watermark(
    tmp_path: Path, place: str, high_watermark: int, end: int
) -> None:
    """A leader that comes back may truncate the marker."""
    of_producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    marker = build_marker(ControlRecordType.COMMIT, offset=3, timestamp=30, producer_id=7)
    data = batch(0) + batch(1, 2, **of_producer) + marker + batch(4)
    for broker in ("b1", "b2")[: 1 + (place == "two copies")]:
        partition(tmp_path / "logs" / broker, data, "a-0")
        checkpoint = tmp_path / "logs" / broker / "replication-offset-checkpoint"
        checkpoint.write_text(f"0\n1\na 0 {high_watermark}\n")
    path = packed(tmp_path / "logs") if place == "packed" else tmp_path / "logs"
    for isolation, last in (
        ("read_committed", end),
        ("read_uncommitted", min(high_watermark, 5)),
    ):
        source = stream(path, isolation=isolation)
        assert source.latestOffset({"a": {"0": 0}}) == {"a": {"0": last}}
        source.stop()


@pytest.mark.parametrize("limit", [Limit(max_bytes=100), Limit(max_rows=4), Limit()])
def test_a_log_that_is_shorter_when_it_is_listed_again_is_read_to_its_new_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Any
) -> None:
    """A leader truncates it between the listing and the plan."""
    partition(tmp_path, batch(0, 1), "a-0")
    second = partition(tmp_path, batch(2, 3), "a-0", 2) / file_name(2, Kind.LOG)
    before = FollowedLog.epoch_of

    def epoch_of(log: FollowedLog, offset: int) -> int:
        if second.exists():
            second.unlink()
            raise FileNotFoundError(2, "no such file", str(second))
        return before(log, offset)

    monkeypatch.setattr(FollowedLog, "epoch_of", epoch_of)
    end = stream(tmp_path).latestOffset({"a": {"0": 0}}, limit)
    assert end == {"a": {"0": 2}}
