"""Each field of an entry of the manifest, of a segment in which no two of them are equal."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.jobs.convert.convert_segment import convert_segment
from downconvert.spark.jobs.convert.manifest import Entry, read_note
from records import Codec, ControlRecordType, FileRecords, build_marker
from tests.downconvert.spark.descriptors import open_below
from tests.downconvert.storage.logs import UNSYNCED, batch, segment

from .converting import NAME, task

LAST = "00000000000000000020.log"


def sent(*offsets: int, producer_id: int, codec: Codec = Codec.NONE) -> bytes:
    given: Any = {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}
    return batch(*offsets, codec=codec, **given)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Old and new batches, two aborted ones of three, and three markers. A transaction of the same
    producer is aborted in the next segment: it is none of this one."""
    abort, commit = ControlRecordType.ABORT, ControlRecordType.COMMIT
    parts = [
        *(batch(n, magic=1) for n in range(5)),
        sent(5, 6, 7, 8, producer_id=3),
        build_marker(commit, offset=9, timestamp=1, producer_id=3),
        sent(10, 11, producer_id=7),
        sent(12, producer_id=8, codec=Codec.GZIP),
        build_marker(abort, offset=13, timestamp=1, producer_id=7),
        build_marker(abort, offset=14, timestamp=1, producer_id=8),
    ]
    path = segment(tmp_path / "topic-0", 0, *parts).path().parent
    after = [sent(20, producer_id=3), build_marker(abort, offset=21, timestamp=1, producer_id=3)]
    segment(path, 20, *after)
    return path


FIGURES = {
    ("read_uncommitted", 1): {"records": 12, "records_converted": 7, "aborted_batches": 2},
    ("read_committed", 1): {"records": 9, "records_converted": 4, "aborted_batches": 2},
    ("read_uncommitted", 2): {"records": 12, "records_converted": 5, "aborted_batches": 0},
}


@pytest.mark.parametrize(("isolation", "to_magic"), FIGURES)
def test_an_entry_says_what_was_read_and_what_was_written(
    source: Path, isolation: str, to_magic: int
) -> None:
    one = task(source, to_magic, isolation=isolation)
    entry = convert_segment(one, attempt="1", files=UNSYNCED)
    log, made = source / NAME, Path(one.target) / NAME
    with FileRecords.open(made) as records:
        batches = len(list(records.batches()))
    figures = FIGURES[isolation, to_magic]
    assert {name: getattr(entry, name) for name in figures} == figures
    assert entry == Entry(
        topic="topic",
        partition=0,
        segment=0,
        status="converted",
        settings=str(one.settings),
        source=str(log),
        source_size=log.stat().st_size,
        source_modified=log.stat().st_mtime_ns,
        source_digest=hashlib.sha256(log.read_bytes()).hexdigest(),
        target=str(made),
        target_size=made.stat().st_size,
        target_digest=hashlib.sha256(made.read_bytes()).hexdigest(),
        batches_in=11,
        batches_out=batches,
        control_batches=3,
        verified="records",
        cpu_seconds=entry.cpu_seconds,
        peak_memory=entry.peak_memory,
        **figures,
    )
    assert batches != 11
    assert entry.cpu_seconds > 0
    assert 2**20 < entry.peak_memory < 2**40
    assert read_note(Path(one.target), 0) == entry
    assert not open_below(source.parent)


def test_an_entry_of_a_failure_says_what_was_read_and_no_file_is_open(source: Path) -> None:
    log = source / NAME
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    one = task(source, 2)
    entry = convert_segment(one, attempt="1", files=UNSYNCED)
    assert (entry.status, entry.target, entry.records) == ("failed", "", -1)
    assert (entry.source, entry.source_size) == (str(log), log.stat().st_size)
    assert entry.error.startswith(f"{log}: checksum does not match, at byte ")
    assert entry.cpu_seconds > 0
    assert read_note(Path(one.target), 0) == entry
    assert not open_below(source.parent)


def test_a_source_that_was_copied_here_is_named_by_where_it_was(source: Path) -> None:
    one = replace(task(source, 2, base_offset=20), source_name="s3://bucket/topic-0/20.log")
    entry = convert_segment(one, attempt="1", files=UNSYNCED)
    assert (entry.source, entry.verified, entry.records) == (one.source_name, "copy", -1)
    assert (Path(one.target) / LAST).read_bytes() == (source / LAST).read_bytes()
