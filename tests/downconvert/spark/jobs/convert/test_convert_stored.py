"""Conversions from and to a store: what is uploaded, in which order, and what is kept.

The store is fsspec's memory; what servers do is in test_stored_jobs.py."""

import gzip
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from downconvert.spark.jobs.convert import convert, convert_stored, stored_manifest
from downconvert.spark.jobs.convert.manifest import MANIFEST, NOTE_SUFFIX, Entry, parse
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.convert.stored_manifest import MARKER, stored_entries
from downconvert.spark.stores import stores
from downconvert.spark.stores.blobs import Blob
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.in_process import SESSION, without_spark
from tests.downconvert.spark.reading import packed
from tests.downconvert.storage.logs import batch, indexed_segment, segment

TO_V1, TO_V2 = Settings(to_magic=1), Settings(to_magic=2)
FIRST, SECOND = file_name(0, Kind.LOG), file_name(10, Kind.LOG)
NOTE = f"a-0/{0:020d}{NOTE_SUFFIX}"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two logs, the first one of two segments."""
    path = tmp_path / "logs"
    path.mkdir()
    for base in (0, 10):
        data = [batch(n, magic=1) for n in range(base, base + 10)]
        indexed_segment(path / "a-0", base, *data, interval=100)
    indexed_segment(path / "b-2", 0, batch(0, 1), batch(2, magic=0))
    return path


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    yield f"memory://{tmp_path.name}/out"
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def run(
    patch: pytest.MonkeyPatch, source: Path, target: str, settings: Settings = TO_V2
) -> list[str]:
    """The status of each segment."""
    return [row.status for row in results(patch, source, target, settings)]


def results(
    patch: pytest.MonkeyPatch, source: Path, target: str, settings: Settings = TO_V2
) -> list[Any]:
    with patch.context() as patched:
        without_spark(patched)
        found: Any = convert.run(SESSION, [str(source)], target, settings)
        return list(found.rows)


def content(target: str) -> dict[str, bytes]:
    """The objects of a target, by their names below it."""
    files = fsspec.filesystem("memory")
    path = f"/{target.partition('://')[2].partition('?')[0]}"
    found = files.find(path) if files.exists(path) else []
    return {name.removeprefix(f"{path}/"): files.cat_file(name) for name in found}


def put(target: str, name: str, data: bytes) -> None:
    fsspec.filesystem("memory").pipe(f"/{target.partition('://')[2]}/{name}", data)


def logs_in(target: str) -> dict[str, bytes]:
    return {name: data for name, data in content(target).items() if name.endswith(".log")}


def entries(target: str) -> list[Entry]:
    return list(stored_entries(target))


@pytest.mark.parametrize("settings", [TO_V1, TO_V2], ids=["v1", "v2"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_store_gets_the_files_that_a_directory_gets(
    logs: Path,
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    is_packed: bool,
) -> None:
    here, source = tmp_path / "here", packed(logs) if is_packed else logs
    assert run(monkeypatch, source, str(here), settings) == ["converted"] * 3
    assert run(monkeypatch, source, target, settings) == ["converted"] * 3
    found = content(target)
    assert found.pop(MARKER).decode() == str(settings)
    mounted = {
        str(path.relative_to(here)): path.read_bytes() for path in here.rglob("*") if path.is_file()
    }
    assert found.keys() == mounted.keys()
    named = {name for name in found if not name.endswith((NOTE_SUFFIX, MANIFEST))}
    assert len(named) >= 9
    assert {name: found[name] for name in named} == {name: mounted[name] for name in named}
    as_here = map(parse, mounted[MANIFEST].splitlines())
    for ours, its in zip(entries(target), as_here, strict=True):
        assert ours.target == f"{target}/{ours.topic}-{ours.partition}/{Path(its.target).name}"
        ours_here = replace(ours, cpu_seconds=0.0, peak_memory=0, target="")
        assert ours_here == replace(its, cpu_seconds=0.0, peak_memory=0, target="")
        assert parse(found[f"{ours.topic}-{ours.partition}/{ours.segment:020d}{NOTE_SUFFIX}"]) == (
            ours
        )


def test_a_log_is_written_after_its_other_files_and_before_its_note(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def noted(uri: str, data: bytes | Path) -> None:
        written.append(uri.removeprefix(f"{target}/"))
        stores.write(uri, data)

    monkeypatch.setattr(convert_stored, "write", noted)
    run(monkeypatch, logs, target)
    for name in (f"a-0/{0:020d}", f"a-0/{10:020d}", f"b-2/{0:020d}"):
        of_segment = [one for one in written if one.startswith(name)]
        assert of_segment[-2:] == [f"{name}.log", f"{name}{NOTE_SUFFIX}"]
        assert len(of_segment) == len(set(of_segment))
        assert {f"{name}.index", f"{name}.timeindex"} <= set(of_segment[:-2])


@pytest.mark.parametrize("is_packed", [False, True])
def test_converted_segments_are_kept_and_not_written_again(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    source = packed(logs) if is_packed else logs
    run(monkeypatch, source, target)
    before = content(target)
    written: list[str] = []
    monkeypatch.setattr(convert_stored, "write", lambda uri, _: written.append(uri))
    assert run(monkeypatch, source, target) == ["kept"] * 3
    assert (written, content(target)) == ([], before)


def test_a_segment_that_is_kept_took_no_time(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, logs, target)
    assert all(entry.cpu_seconds > 0 for entry in entries(target))
    again = results(monkeypatch, logs, target)
    assert [(row.status, row.cpu_seconds) for row in again] == [("kept", 0.0)] * 3


def _without_log(_: Path, target: str) -> None:
    fsspec.filesystem("memory").rm(f"/{target.partition('://')[2]}/a-0/{FIRST}")


def _another_log(_: Path, target: str) -> None:
    data = content(target)[f"a-0/{FIRST}"]
    put(target, f"a-0/{FIRST}", data[:-1] + bytes([data[-1] ^ 1]))


def _shorter_log(_: Path, target: str) -> None:
    put(target, f"a-0/{FIRST}", content(target)[f"a-0/{FIRST}"][:-1])


def _note_of_no_json(_: Path, target: str) -> None:
    put(target, NOTE, b"{")


def _without_note(_: Path, target: str) -> None:
    fsspec.filesystem("memory").rm(f"/{target.partition('://')[2]}/{NOTE}")


def _note_of_other_settings(_: Path, target: str) -> None:
    known = parse(content(target)[NOTE])
    put(target, NOTE, replace(known, settings="v3").to_json().encode())


def _note_of_a_failure(_: Path, target: str) -> None:
    known = parse(content(target)[NOTE])
    put(target, NOTE, replace(known, status="failed").to_json().encode())


def _later_source(logs: Path, _: str) -> None:
    path = logs / "a-0" / FIRST
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def _larger_source(logs: Path, _: str) -> None:
    path = logs / "a-0" / FIRST
    status, data = path.stat(), path.read_bytes()
    last = batch(9, magic=1)
    assert data.endswith(last)
    path.write_bytes(data.removesuffix(last) + batch(9, size=200, magic=1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES = (
    _without_log,
    _another_log,
    _shorter_log,
    _note_of_no_json,
    _without_note,
    _note_of_other_settings,
    _note_of_a_failure,
    _later_source,
    _larger_source,
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_packed", [False, True])
def test_segments_that_changed_since_they_were_noted_are_converted_again(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch, change: Any, is_packed: bool
) -> None:
    run(monkeypatch, packed(logs) if is_packed else logs, target)
    before = logs_in(target)
    change(logs, target)
    source = packed(logs) if is_packed else logs
    assert run(monkeypatch, source, target) == ["converted", "kept", "kept"]
    assert (logs_in(target) == before) == (change is not _larger_source)
    assert run(monkeypatch, source, target) == ["kept"] * 3


def test_a_log_has_no_note_while_it_is_replaced(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, logs, target)
    _larger_source(logs, target)

    def full(uri: str, _: bytes | Path) -> None:
        assert uri.startswith(f"{target}/a-0/")
        assert NOTE not in content(target)
        raise OSError("the quota is used up")

    monkeypatch.setattr(convert_stored, "write", full)
    assert run(monkeypatch, logs, target) == ["failed", "kept", "kept"]
    assert [entry.segment for entry in entries(target)] == [10, 0]


def test_a_run_that_dies_at_any_write_is_made_up_for(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    left = 0

    def dying(uri: str, data: bytes | Path) -> None:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        stores.write(uri, data)

    run(monkeypatch, logs, f"{target}-whole")
    whole = logs_in(f"{target}-whole")
    for module in (convert_stored, stored_manifest):
        monkeypatch.setattr(module, "write", dying)
    for count in range(100):
        left, into = count, f"{target}-{count}"
        try:
            run(monkeypatch, logs, into)
        except Killed:
            left = 100
        else:
            break
        for note in (name for name in content(into) if name.endswith(NOTE_SUFFIX)):
            log = note.removesuffix(NOTE_SUFFIX) + ".log"
            assert content(into)[log] == whole[log]
        assert "failed" not in run(monkeypatch, logs, into)
        assert logs_in(into) == whole
        assert len(entries(into)) == 3
    assert count > 10


def test_a_damaged_segment_has_a_note_and_no_log(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (logs / "a-0" / FIRST).read_bytes()
    segment(logs / "a-0", 0, whole[:-1] + bytes([whole[-1] ^ 1]))
    for others in ("converted", "kept"):
        assert run(monkeypatch, logs, target) == ["failed", others, others]
        assert f"a-0/{FIRST}" not in content(target)
        (entry,) = [one for one in entries(target) if one.status == "failed"]
        assert (entry.segment, entry.target) == (0, "")
        assert entry.error.startswith(f"{logs / 'a-0' / FIRST}: ")
    segment(logs / "a-0", 0, whole)
    assert run(monkeypatch, logs, target) == ["converted", "kept", "kept"]


def test_a_gzipped_or_clipped_segment_is_kept_whatever_its_size_is_then(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logs / "b-2" / FIRST
    path.with_name(f"{FIRST}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    second = logs.with_name("second")
    shutil.copytree(logs / "a-0", second / "a-0")
    # Each copy lacks a segment of the other one, and they overlap.
    (logs / "a-0" / SECOND).unlink()
    (second / "a-0" / FIRST).unlink()
    (second / "a-0" / SECOND).rename(second / "a-0" / file_name(5, Kind.LOG))
    segment(second / "a-0", 5, *(batch(n, magic=1) for n in range(5, 20)))
    both = logs.with_name("both")
    both.mkdir()
    for one in (logs, second):
        shutil.move(one, both / one.name)
    source = packed(both)
    first = run(monkeypatch, source, target)
    assert set(first) == {"converted"}
    assert run(monkeypatch, source, target) == ["kept"] * len(first)


@pytest.mark.parametrize("count", [1, 3])
def test_offsets_that_the_next_segment_has_too_are_written_once(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A segment that lacks some of them is an error."""
    batches = [batch(n, magic=1) for n in range(9)]
    (tmp_path / "logs").mkdir()
    for base, data in ((0, batches[:6]), (3, batches[3 : 3 + count]), (6, batches[6:])):
        indexed_segment(tmp_path / "logs" / "a-0", base, *data)
    found = run(monkeypatch, packed(tmp_path / "logs"), target)
    assert found == ["converted" if count == 3 else "failed", "converted", "converted"]
    assert sum(entry.records for entry in entries(target)) == (9 if count == 3 else 1 + 3 - 1)


def test_a_task_fetches_the_log_of_its_own_segment_only(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[str] = []
    save = Blob.save

    def noted(blob: Blob, path: Path) -> None:
        saved.append(path.name)
        save(blob, path)

    monkeypatch.setattr(Blob, "save", noted)
    run(monkeypatch, packed(logs), target)
    assert sorted(name for name in saved if name.endswith(".log")) == [FIRST, FIRST, SECOND]


def test_from_a_store_to_a_directory(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, there = packed(logs), tmp_path / "there"
    assert run(monkeypatch, source, str(there)) == ["converted"] * 3
    assert run(monkeypatch, source, str(there)) == ["kept"] * 3
    log = there / "a-0" / SECOND
    log.write_bytes(log.read_bytes()[:-1])
    assert run(monkeypatch, source, str(there)) == ["kept", "converted", "kept"]
    names = {path.name for path in (there / "a-0").iterdir()}
    assert names >= {FIRST, SECOND, Path(NOTE).name}
    note = parse((there / NOTE).read_bytes())
    assert note.source == str(source)
    assert note.target == str(there / "a-0" / FIRST)
