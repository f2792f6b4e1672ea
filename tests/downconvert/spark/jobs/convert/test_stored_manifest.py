"""A target in a store holds one conversion, and its manifest has a line for each note."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from downconvert.spark.jobs.convert.manifest import MANIFEST, Entry, note_path
from downconvert.spark.jobs.convert.stored_manifest import (
    MARKER,
    begin,
    gather_stored,
    stored_entries,
)
from downconvert.spark.stores.stores import below, listed, pinned, read, write


@pytest.fixture(params=["", "?region=eu-west-9"])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A folder that does not exist, by a URI with and without settings."""
    yield pinned(f"memory://{tmp_path.name}/out{request.param}")
    files = fsspec.filesystem("memory")
    if files.exists(f"/{tmp_path.name}"):
        files.rm(f"/{tmp_path.name}", recursive=True)


def noted(target: str, topic: str, segment: int) -> Entry:
    entry = Entry(
        topic=topic,
        partition=0,
        segment=segment,
        status="converted",
        settings="v2",
        source="s",
        source_size=1,
        source_modified=2,
    )
    name = note_path(Path(), segment).name
    write(below(target, f"{topic}-0", name), entry.to_json().encode() + b"\n")
    return entry


def names(target: str) -> list[str]:
    return [found.uri.partition("?")[0].rpartition("/out/")[2] for found in listed(target)]


def test_a_manifest_has_the_notes_in_the_order_of_their_names(target: str) -> None:
    wanted = [noted(target, "b", 7)]
    wanted = [noted(target, "a", segment) for segment in (5, 9, 10, 100)] + wanted
    write(below(target, "a-0", "00000000000000000005.log"), b"no note")
    write(below(target, "a-0", "00000000000000000005.converted.json.part"), b"no note")
    gather_stored(target)
    assert list(stored_entries(target)) == wanted
    late = noted(target, "a", 6)
    assert late not in stored_entries(target)
    gather_stored(target)
    assert [entry.segment for entry in stored_entries(target)] == [5, 6, 9, 10, 100, 7]


def test_a_target_that_is_not_there_gets_no_manifest(target: str) -> None:
    gather_stored(target)
    with pytest.raises(FileNotFoundError):
        listed(target)
    with pytest.raises(FileNotFoundError):
        list(stored_entries(target))


def test_a_target_without_notes_has_a_manifest_without_lines(target: str) -> None:
    begin(target, "v2")
    gather_stored(target)
    assert names(target) == [MANIFEST, MARKER]
    assert list(stored_entries(target)) == []


@pytest.mark.parametrize("other", ["v1", "v2 x", "v", ""])
def test_a_target_is_of_the_settings_that_it_was_begun_with(target: str, other: str) -> None:
    begin(target, "v2")
    assert names(target) == [MARKER]
    noted(target, "a", 0)
    begin(target, "v2")
    with pytest.raises(ValueError, match=f"a conversion to v2, and this is one to {other}: name"):
        begin(target, other)
    assert read(below(target, MARKER)) == b"v2"


@pytest.mark.parametrize("name", ["something", f"{MARKER}.old", "a-0/00000000000000000005.log"])
def test_a_target_with_other_content_is_refused(target: str, name: str) -> None:
    write(below(target, *name.split("/")), b"v2")
    with pytest.raises(ValueError, match="holds other things: name a new folder"):
        begin(target, "v2")
    assert names(target) == [name]
