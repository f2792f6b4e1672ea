"""The audit of a segment counts its content."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.jobs.audit import audit_segment
from downconvert.spark.jobs.audit.audit import plan
from downconvert.spark.jobs.audit.audit_segment import Task, audit_segments
from downconvert.spark.logs.trees import read_partition
from downconvert.storage.names import TopicPartition
from records import Codec, ControlRecordType, Record, TimestampType
from records.batches.builder import build, build_empty, build_marker
from records.formats import V2
from tests.downconvert.storage.logs import batch, segment

NAME = "00000000000000000000.log"


def shares(
    directory: Path, *segments: int, stretches: int = 4, verify_crc: bool = True
) -> list[dict[str, Any]]:
    task = Task("topic", 0, str(directory), segments or (0,), stretches, verify_crc)
    return list(audit_segments(task))


def test_formats_codecs_and_what_is_known_of_them(tmp_path: Path) -> None:
    batches = [
        batch(0, magic=0),
        batch(1, magic=1),
        batch(2, 3, 4, magic=1, codec=Codec.GZIP),
        batch(5, 6, codec=Codec.ZSTD),
    ]
    source = segment(tmp_path / "topic-0", 0, *batches).path()
    found = {(share["magic"], share["codec"]): share for share in shares(source.parent)}
    sizes = [found[key]["bytes"] for key in [(0, "none"), (1, "none"), (1, "gzip"), (2, "zstd")]]
    assert sizes == list(map(len, batches))
    assert [share["records"] for share in found.values()] == [1, 1, 0, 2]
    assert found[1, "gzip"]["uncounted_bytes"] == len(batches[2])
    assert [share["sampled_records"] for share in found.values()] == [1, 1, 3, 2]
    assert sum(share["log_bytes"] for share in found.values()) == source.stat().st_size
    assert sum(share["segments"] for share in found.values()) == 1
    assert found[0, "none"]["oldest"] is None
    assert (found[2, "zstd"]["oldest"], found[2, "zstd"]["newest"]) == (60, 60)
    assert found[2, "zstd"]["v1"]["bytes_out"] > 0
    assert found[1, "none"]["v1"]["bytes_out"] == len(batches[1])
    assert found[1, "none"]["v0"]["bytes_out"] == len(batches[1]) - 8


def test_an_empty_segment_is_a_share_without_a_format(tmp_path: Path) -> None:
    directory = segment(tmp_path / "topic-0", 7).path().parent
    (share,) = shares(directory, 7)
    assert (share["magic"], share["segments"], share["bytes"]) == (None, 1, 0)


def test_records_with_headers_are_counted(tmp_path: Path) -> None:
    records = [
        Record(n, 1, TimestampType.CREATE, None, b"v", (("k", b"x"),) * (n == 1)) for n in range(3)
    ]
    directory = segment(tmp_path / "topic-0", 0, build(records, magic=V2)).path().parent
    (share,) = shares(directory)
    assert (share["sampled_with_headers"], share["sampled_payload"]) == (1, 5)


def test_gaps_are_between_batches_and_within(tmp_path: Path) -> None:
    directory = segment(tmp_path / "topic-0", 0, batch(0, 1), batch(5, 7), batch(8)).path().parent
    (share,) = shares(directory)
    assert (share["gaps"], share["missing_offsets"]) == (2, 4)
    assert (share["first_offset"], share["next_offset"]) == (0, 9)


def test_a_marker_whose_record_was_compacted_is_no_gap(tmp_path: Path) -> None:
    empty = build_empty(base_offset=3, last_offset=3, control=True)
    directory = segment(tmp_path / "topic-0", 0, batch(0, 1, 2), empty, batch(4)).path().parent
    (share,) = shares(directory)
    assert (share["gaps"], share["missing_offsets"]) == (0, 0)
    assert (share["batches"], share["records"], share["control_batches"]) == (3, 4, 1)


def test_offsets_that_no_segment_has_are_damage_and_no_gap(tmp_path: Path) -> None:
    """No checksum covers a batch's offset. Gaps up to some of them would exceed 64 bits."""
    batches = [bytearray(batch(offset)) for offset in range(100, 106)]
    for wrong in (1, 3):
        batches[wrong][0] ^= 0x40
    batches[4][7] = 0  # 0 in place of 104
    directory = segment(tmp_path / "topic-0", 100, *map(bytes, batches)).path().parent
    (share,) = shares(directory, 100)
    assert (share["gaps"], share["missing_offsets"]) == (2, 3)
    assert (share["first_offset"], share["next_offset"], share["batches"]) == (100, 106, 6)
    offsets = [2**62 + 101, 2**62 + 103, 0]
    found = zip(offsets, share["damages"], strict=True)
    assert all(f"offset {offset}, not of it, at byte" in damage for offset, damage in found)


def test_aborted_records_are_counted(tmp_path: Path) -> None:
    options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    marker = build_marker(ControlRecordType.ABORT, offset=2, timestamp=1, producer_id=7)
    directory = segment(tmp_path / "topic-0", 0, batch(0, 1, **options), marker).path().parent
    (share,) = shares(directory)
    assert (share["aborted_batches"], share["aborted_records"]) == (1, 2)
    assert (share["control_batches"], share["control_bytes"]) == (1, len(marker))
    assert share["sampled_bytes"] == share["bytes"] - len(marker)


def damaged_size(data: bytearray) -> None:
    data[-len(batch(9)) + 16] = 9  # its magic


def damaged_body(data: bytearray) -> None:
    data[-1] ^= 0xFF


def torn(data: bytearray) -> None:
    del data[-3:]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damaged_size, "unknown magic"),
        (damaged_body, "checksum does not match"),
        (torn, "what follows is not a whole batch"),
    ],
)
def test_damage_is_named_and_the_rest_is_counted(tmp_path: Path, damage: Any, words: str) -> None:
    directory = tmp_path / "topic-0"
    segment(directory, 0, batch(0), batch(9))
    segment(directory, 10, batch(10))
    data = bytearray((directory / NAME).read_bytes())
    damage(data)
    (directory / NAME).write_bytes(data)
    found = shares(directory, 0, 10)
    assert words in found[0]["damages"][0]
    assert str(directory / NAME) in found[0]["damages"][0]
    assert sum(share["batches"] for share in found) >= 2
    assert found[-1]["damages"] == []


def test_a_torn_end_of_the_last_segment_is_a_tail_and_no_damage(tmp_path: Path) -> None:
    directory = segment(tmp_path / "topic-0", 0, batch(0), batch(1)[:-3]).path().parent
    (share,) = shares(directory)
    assert (share["damages"], share["tail_bytes"]) == ([], len(batch(1)) - 3)


def test_checksums_are_compared_outside_of_the_sample_too(tmp_path: Path) -> None:
    batches = [bytearray(batch(offset, size=500_000)) for offset in range(40)]
    batches[7][-2] ^= 1
    segment(tmp_path / "t-0", 0, *map(bytes, batches))
    (share,) = shares(tmp_path / "t-0")
    (damage,) = share["damages"]
    assert "checksum does not match, at byte " + str(7 * len(batches[0])) in damage
    assert share["batches"] == 40
    (share,) = shares(tmp_path / "t-0", verify_crc=False)
    assert share["damages"] == []


def test_segments_that_are_not_there_any_more_are_reported(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", 5, batch(5))
    (share,) = shares(tmp_path / "t-0", 0, 3)
    assert share["damages"] == [
        f"{tmp_path}/t-0: {NAME}, 00000000000000000003.log not there any more"
    ]
    assert len(shares(tmp_path / "t-0", 3, 5)) == 1
    assert shares(tmp_path / "t-0", 3, 5)[0]["damages"] == []


def test_records_before_the_log_start_are_not_counted(tmp_path: Path) -> None:
    """A request has deleted them; the file still has them."""
    source = tmp_path / "topic-0"
    segment(source, 0, batch(0, 1), batch(2, 3, 4) + batch(7))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 3\n")
    log = read_partition(TopicPartition("topic", 0), str(source))
    (share,) = audit_segments(Task("topic", 0, str(source), (0,), log=log))
    assert (share["batches"], share["records"], share["gaps"]) == (2, 3, 1)
    assert (share["first_offset"], share["missing_offsets"]) == (2, 2)
    assert share["log_bytes"] == sum(map(len, (batch(0, 1), batch(2, 3, 4), batch(7))))


@pytest.mark.filterwarnings("ignore:copies of a-0 differ")
def test_records_that_a_later_leader_has_truncated_are_not_counted(tmp_path: Path) -> None:
    """A copy that alone has the beginning goes further than its leader epoch did."""
    for broker, base, count, epoch in (("b1", 8, 3, 1), ("b2", 0, 10, 0)):
        (tmp_path / broker).mkdir()
        batches = (batch(at, leader_epoch=epoch) for at in range(base, base + count))
        segment(tmp_path / broker / "a-0", base, *batches)
    (tmp_path / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 6\n")
    found = [
        share
        for task in plan([str(tmp_path)], (), everything=True)
        for share in audit_segments(task)
    ]
    records = {share["segment"]: share["records"] for share in found}
    assert records == {0: 6, 8: 3}
    size = len(batch(0, leader_epoch=0))
    assert {share["segment"]: share["log_bytes"] for share in found} == {0: 6 * size, 8: 3 * size}


def test_a_record_that_is_too_large_for_a_sample_is_left_out_of_it_and_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_segment, "SAMPLED_RECORD_MAX", 1000)
    large, small = batch(0, size=300_000, magic=1), batch(1, codec=Codec.GZIP)
    directory = segment(tmp_path / "topic-0", 0, large, small).path().parent
    found = {share["magic"]: share for share in shares(directory)}
    assert [share["damages"] for share in found.values()] == [[], []]
    assert (found[1]["sampled_bytes"], found[1]["records"]) == (0, 1)
    assert (found[2]["sampled_bytes"], found[2]["records"]) == (len(small), 1)


@pytest.mark.parametrize("sizes", [(40_000, 10, 10, 10), (10, 40_000, 10), (10, 10, 40_000)])
def test_a_fetch_needs_as_much_memory_as_the_largest_part_of_a_sample(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    """CPU time and bytes are added. Batches of another format are between those parts."""
    parts: list[dict[str, Any]] = []
    for at, size in enumerate(sizes):
        one = batch(2 * at, size=size, codec=Codec.ZSTD)
        (tmp_path / str(at)).mkdir()
        parts += shares(segment(tmp_path / str(at) / "a-0", 0, one).path().parent)
    batches = [
        data
        for at, size in enumerate(sizes)
        for data in (batch(2 * at, size=size, codec=Codec.ZSTD), batch(2 * at + 1, magic=1))
    ]
    (found, _) = shares(segment(tmp_path / "a-0", 0, *batches).path().parent)
    for version in ("v1", "v0"):
        costs = [part[version] for part in parts]
        for name in ("buffers", "temporary"):
            used = {cost[name] for cost in costs}
            assert found[version][name] == max(used) > min(used)
        assert found[version]["bytes_out"] == sum(cost["bytes_out"] for cost in costs)
        assert found[version]["cpu_seconds"] > 0
