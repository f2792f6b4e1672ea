"""`downconvert generate`: segments in a directory."""

import json
from pathlib import Path

from records import FileRecords
from tests.downconvert.cli.running import Command, one_line


def test_segments_are_written_and_named(tmp_path: Path, command: Command) -> None:
    ran = command("generate", tmp_path / "new" / "topic-0", "codec=gzip,size=64KiB,seed=5")
    assert ran.code == 0
    first, path = ran.out.splitlines()
    assert first.startswith("codec=gzip,record=100..1000,size=64KiB,seed=5: 1 segment, ")
    assert Path(path) == tmp_path / "new" / "topic-0" / "00000000000000000000.log"
    with FileRecords.open(path) as log:
        assert next(log.batches()).codec.name == "GZIP"


def test_a_directory_with_segments_is_left_alone(segment: Path, command: Command) -> None:
    before = segment.read_bytes()
    ran = command("generate", segment.parent, "size=1KiB")
    assert ran.code == 2
    assert "holds segments already" in one_line(ran.err)
    assert segment.read_bytes() == before


def test_a_file_in_place_of_the_directory_is_refused(no_log: Path, command: Command) -> None:
    ran = command("generate", no_log, "size=1KiB")
    assert ran.code == 2
    assert str(no_log) in one_line(ran.err)


def test_json_names_the_segments(command: Command, tmp_path: Path) -> None:
    ran = command("generate", "--json", tmp_path / "made", "size=64KiB,segment=32KiB")
    document = json.loads(ran.out)
    assert document["segments"] == sorted(map(str, (tmp_path / "made").glob("*.log")))
    assert document["bytes"] == sum(Path(path).stat().st_size for path in document["segments"])
