"""`downconvert dump`: lines like those of Kafka's tool, JSON lines, and damage."""

import json
from pathlib import Path
from typing import Any

import pytest

from records import Codec, TimestampType
from records.batches.builder import build, build_marker
from records.batches.control import ControlRecordType
from records.record import Record

from .conftest import batch
from .running import Command, one_line


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_batch_is_printed_as_kafka_prints_it(segment: Path, command: Command) -> None:
    ran = command("dump", segment)
    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[0] == f"Dumping {segment}"
    assert lines[1].startswith(
        "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: -1 lastSequence: -1 producerId: -1 "
        "producerEpoch: -1 partitionLeaderEpoch: -1 isTransactional: false isControl: false "
        "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1002 size: "
    )
    assert " magic: 2 compresscodec: none crc: " in lines[1]
    assert lines[1].endswith(" isvalid: true")
    assert lines[2] == (
        "| offset: 0 CreateTime: 1000 keySize: 3 valueSize: 7 sequence: -1 headerKeys: [] "
        "key: key payload: value 0"
    )
    assert len(lines) == 1 + 2 * 4


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_messages_are_printed_too(
    magic: int, codec: Codec, tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "old.log"
    records = [Record(n, 7, TimestampType.CREATE, None, b"v") for n in (4, 5)]
    path.write_bytes(build(records, magic=magic, codec=codec))
    ran = command("dump", path)
    batches = [line for line in ran.out.splitlines() if line.startswith("offset: ")]
    assert len(batches) == (2 if codec is Codec.NONE else 1)
    assert f" magic: {magic} compresscodec: {codec.name.lower()} " in batches[0]
    time = "NoTimestampType: -1" if magic == 0 else "CreateTime: 7"
    for offset in (4, 5):
        assert (
            f"| offset: {offset} {time} keySize: -1 valueSize: 1 key: null payload: v\n" in ran.out
        )


def test_a_marker_shows_the_outcome_of_its_transaction(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "marker.log"
    path.write_bytes(
        build_marker(
            ControlRecordType.ABORT, offset=9, timestamp=5, producer_id=1, coordinator_epoch=3
        )
    )
    out = command("dump", path).out
    assert "isTransactional: true isControl: true" in out
    assert " endTxnMarker: ABORT coordinatorEpoch: 3\n" in out


def test_text_values_are_printed_as_text_and_long_values_are_cut(
    tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "values.log"
    values = [b"plain", "später".encode(), b"\xff\x00", b"line\nbreak", b"long " * 1000, None]
    path.write_bytes(
        build(
            [Record(n, 0, TimestampType.CREATE, None, value) for n, value in enumerate(values)],
            magic=2,
        )
    )
    shown = [line.partition("payload: ")[2] for line in command("dump", path).out.splitlines()[2:]]
    assert shown[:4] == ["plain", "später", "0xff00", "0x6c696e650a627265616b"]
    assert shown[4] == f"{'long ' * 24}... (5,000 bytes)"
    assert shown[5] == "null"
    assert f"payload: {'long ' * 1000}\n" in command("dump", path, "--full").out


def test_json_lines_are_complete(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "values.log"
    record = Record(
        3, 5, TimestampType.CREATE, b"\xff", b"v" * 500, (("trace", b"1"), ("trace", None))
    )
    path.write_bytes(build([record], magic=2, leader_epoch=4))
    header, line = json_lines(command("dump", path, "--json").out)
    assert header["type"] == "batch"
    assert (header["baseOffset"], header["partitionLeaderEpoch"], header["isValid"]) == (3, 4, True)
    assert line == {
        "type": "record",
        "file": str(path),
        "position": 0,
        "offset": 3,
        "timestamp": 5,
        "timestampType": "CreateTime",
        "key": {"base64": "/w=="},
        "value": "v" * 500,
        "sequence": -1,
        "headers": [["trace", "1"], ["trace", None]],
    }


def test_batches_alone_are_printed_without_records(segment: Path, command: Command) -> None:
    out = command("dump", "--batches", "--json", segment).out
    assert [line["type"] for line in json_lines(out)] == ["batch", "batch"]


@pytest.mark.usefixtures("segment")
def test_a_directory_is_every_segment_in_it(tmp_path: Path, command: Command) -> None:
    (tmp_path / "topic-0").mkdir()
    (tmp_path / "topic-0" / "00000000000000000009.log").write_bytes(batch(9))
    (tmp_path / "topic-0" / "00000000000000000009.index").write_bytes(b"x")
    out = command("dump", "--batches", "--json", tmp_path).out
    assert [line["baseOffset"] for line in json_lines(out)] == [0, 3, 9]


def test_a_wrong_checksum_is_shown_and_its_records_too(segment: Path, command: Command) -> None:
    data = bytearray(segment.read_bytes())
    data[-2] ^= 1  # in the last value
    segment.write_bytes(data)
    ran = command("dump", segment)
    assert ran.code == 2
    assert "checksum does not match, at byte " in one_line(ran.err)
    assert ran.out.count("isvalid: true") == 1
    assert ran.out.count("isvalid: false") == 1
    assert ran.out.count("\n| offset: ") == 6


def test_a_damaged_batch_is_skipped(damaged: Path, command: Command) -> None:
    damaged.write_bytes(damaged.read_bytes() + batch(6))
    ran = command("dump", damaged, "--json")
    assert ran.code == 2
    offsets = [line["offset"] for line in json_lines(ran.out) if line["type"] == "record"]
    assert offsets == [0, 1, 2, 6, 7, 8]
    checksum, damage = ran.err.splitlines()
    assert f"{damaged}: checksum does not match, at byte " in checksum
    assert f"{damaged}: record runs past its batch, at byte " in damage


def test_a_torn_tail_is_reported_after_all_good_batches(torn: Path, command: Command) -> None:
    ran = command("dump", torn)
    assert ran.code == 2
    assert ran.out.count("\n| offset: ") == 6
    end = torn.stat().st_size - 80
    assert one_line(ran.err) == (
        f"downconvert: {torn}: torn: the last 80 bytes, from byte {end} on, are not a whole batch"
    )


def test_many_problems_are_summarized(segment: Path, command: Command) -> None:
    data = bytearray(batch(0))
    data[-2] ^= 1
    segment.write_bytes(data * 100)
    ran = command("dump", segment)
    assert ran.code == 2
    assert ran.err.splitlines()[-1].endswith(": 95 more like these")
    assert ran.err.count("\n") == 6


def test_a_file_that_is_not_a_segment_is_reported(no_log: Path, command: Command) -> None:
    ran = command("dump", no_log)
    assert ran.code == 2
    assert "is this a segment (a .log file of a Kafka broker)?" in one_line(ran.err)


def test_a_missing_file_and_an_empty_directory_are_reported(
    tmp_path: Path, command: Command
) -> None:
    ran = command("dump", tmp_path / "missing.log")
    assert ran.code == 2
    assert one_line(ran.err) == f"downconvert: {tmp_path / 'missing.log'}: no such file"
    ran = command("dump", tmp_path)
    assert ran.code == 2
    assert one_line(ran.err) == f"downconvert: {tmp_path} holds no .log file"


def test_an_empty_segment_is_not_an_error(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "empty.log"
    path.touch()
    ran = command("dump", path)
    assert (ran.code, ran.out, ran.err) == (0, f"Dumping {path}\n", "")
