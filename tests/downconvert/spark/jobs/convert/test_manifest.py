"""A manifest can be read again, and is believed only as far as it is true."""

from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.spark.jobs.convert.manifest import (
    IN_WORK_SUFFIX,
    MANIFEST,
    Entry,
    digest_of,
    gather,
    is_true,
    note_path,
    parse,
    read_manifest,
    read_note,
    remove_note,
    write_note,
)
from downconvert.storage import DiskFullError
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.files import WritableFile
from tests.downconvert.storage.logs import UnsyncedDisk


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    log = tmp_path / "topic-0" / "00000000000000000007.log"
    log.parent.mkdir()
    log.write_bytes(b"records")
    return Entry(
        topic="topic",
        partition=0,
        segment=7,
        status="converted",
        settings="v2",
        source="/logs/topic-0/00000000000000000007.log",
        source_size=9,
        source_modified=1,
        target=str(log),
        target_size=7,
        target_digest=digest_of(log),
    )


def test_a_note_is_read_as_it_was_written(entry: Entry, tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    assert read_note(directory, 7) is None
    write_note(directory, entry)
    assert read_note(directory, 7) == entry
    assert is_true(entry, directory)


def test_a_note_is_not_believed_where_the_file_is_another(entry: Entry, tmp_path: Path) -> None:
    Path(entry.target).write_bytes(b"recordz")
    assert not is_true(entry, tmp_path / "topic-0")


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"topic": 1}', "\x00", "null"])
def test_lines_that_are_no_entry_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"not an entry|Expecting"):
        parse(line)


def test_fields_of_later_versions_are_passed_over(entry: Entry) -> None:
    line = entry.to_json()[:-1] + ',"colour":"green"}'
    assert parse(line) == entry


def test_a_manifest_is_its_notes(entry: Entry, tmp_path: Path) -> None:
    write_note(tmp_path / "topic-0", entry)
    gather(tmp_path)
    assert list(read_manifest(tmp_path)) == [entry]
    assert {path.name for path in tmp_path.iterdir()} == {"topic-0", MANIFEST}


def test_a_full_disk_leaves_the_manifest_as_it_was(entry: Entry, tmp_path: Path) -> None:
    write_note(tmp_path / "topic-0", entry)
    gather(tmp_path)
    note_path(tmp_path / "topic-0", 7).unlink()
    with pytest.raises(DiskFullError):
        gather(tmp_path, FaultyDisk(tmp_path, full_from=1))
    assert list(read_manifest(tmp_path)) == [entry]


def test_a_manifest_is_in_the_order_of_partitions_and_offsets(entry: Entry, tmp_path: Path) -> None:
    target, segments = tmp_path / "out", [*range(30, 0, -3), *range(100, 200, 7)]
    for name in ("b-0", "a-1", "a-0"):
        (target / name).mkdir(parents=True)
        for number in segments:
            write_note(target / name, replace(entry, topic=name, segment=number))
    gather(target)
    found = [(one.topic, one.segment) for one in read_manifest(target)]
    assert found == [
        (name, number) for name in ("a-0", "a-1", "b-0") for number in sorted(segments)
    ]


def test_a_failure_is_believed_of_no_file(entry: Entry, tmp_path: Path) -> None:
    """A file of that name is of an earlier run."""
    assert not is_true(replace(entry, status="failed"), tmp_path / "topic-0")


def test_a_manifest_is_in_order_and_has_nothing_of_one_that_was_cut_off(
    entry: Entry, tmp_path: Path
) -> None:
    expected = []
    for topic in ("b", "a"):
        (tmp_path / f"{topic}-0").mkdir()
        for base in (11, 7, 9):
            write_note(tmp_path / f"{topic}-0", replace(entry, topic=topic, segment=base))
            expected.append((topic, base))
    (tmp_path / f"{MANIFEST}{IN_WORK_SUFFIX}").write_bytes(b"?" * 10_000)
    gather(tmp_path)
    found = [(one.topic, one.segment) for one in read_manifest(tmp_path)]
    assert found == sorted(expected)
    assert not (tmp_path / f"{MANIFEST}{IN_WORK_SUFFIX}").exists()


def test_writes_and_removals_are_on_disk(entry: Entry, tmp_path: Path) -> None:
    steps: list[str] = []

    class Noting(UnsyncedDisk):
        def open(self, path: Path) -> WritableFile:
            file = super().open(path)
            file.sync = lambda: steps.append("sync")  # type: ignore[method-assign]
            return file

        def rename(self, source: Path, target: Path) -> None:
            steps.append(f"rename {target.name}")
            super().rename(source, target)

        def remove(self, path: Path) -> None:
            if path.exists():
                steps.append(f"remove {path.name}")
            super().remove(path)

        def sync_directory(self, path: Path) -> None:
            steps.append(f"sync {path.name}")

    directory, files = tmp_path / "topic-0", Noting()
    write_note(directory, entry)
    gather(tmp_path, files)
    assert steps == ["sync", f"rename {MANIFEST}", f"sync {tmp_path.name}"]
    steps.clear()
    remove_note(directory, 7, files)
    remove_note(directory, 8, files)
    assert steps == [f"remove {note_path(directory, 7).name}", "sync topic-0"]
