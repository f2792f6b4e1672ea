"""Paths that are named: an empty one is refused, and only regular files are replaced."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from records.paths import named, whole_file


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(ValueError, match="an empty path"):
        named("")
    assert named(".") == Path()


def test_a_file_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for content in (b"first", b"another"):
        with whole_file(path) as file:
            file.write(content)
            file.flush()
            assert content not in (path.read_bytes() if path.exists() else b"")
        assert path.read_bytes() == content
    with pytest.raises(KeyboardInterrupt):
        write(path, b"half of it", interrupt)
    assert path.read_bytes() == b"another"
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_a_process_of_the_same_id_left_are_replaced(tmp_path: Path) -> None:
    path, left = tmp_path / "f", list[Path]()
    with whole_file(path) as file:
        left = list(tmp_path.iterdir())
        file.write(b"a")
    (partial,) = left
    before, _, writer = partial.stem.rpartition("-")
    partial.with_name(f"{before}-{int(writer) + 1}.part").write_bytes(b"more than that")
    with whole_file(path) as file:
        file.write(b"b")
    assert path.read_bytes() == b"b"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_a_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with whole_file(path) as slow:
        slow.write(b"slow")
        with whole_file(path) as fast:
            fast.write(b"fast")
        assert path.read_bytes() == b"fast"
    assert path.read_bytes() == b"slow"
    assert list(tmp_path.iterdir()) == [path]


def write(path: Path, data: bytes, then: Callable[[Path], None]) -> None:
    with whole_file(path) as file:
        file.write(data)
        then(path)


def interrupt(_: Path) -> None:
    raise KeyboardInterrupt


def make_link(path: Path) -> None:
    path.symlink_to("target")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize(
    "make", [make_link, make_dangling_link, make_link_to_itself, os.mkfifo, Path.mkdir]
)
def test_only_a_regular_file_is_replaced(
    tmp_path: Path, make: Callable[[Path], None], when: str
) -> None:
    path, target = tmp_path / "f", tmp_path / "target"
    target.write_bytes(b"of somebody else")
    if when == "before":
        make(path)
    with pytest.raises(FileExistsError, match="which is not written over"):
        write(path, b"x", make)
    assert target.read_bytes() == b"of somebody else"
    assert not path.is_file() or path.is_symlink()
    assert {one.name for one in tmp_path.iterdir()} == {"f", "target"}


def test_the_error_names_the_kind_of_the_existing_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for name, what in (("link", "is a link, which"), ("pipe", "is not a regular file, which")):
        with pytest.raises(FileExistsError, match=what):
            write(tmp_path / name, b"", lambda _: None)
