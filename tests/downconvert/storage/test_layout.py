"""The files that make up a log, whatever a crash interrupted: Kafka's rules."""

from pathlib import Path

import pytest

from downconvert.storage.layout import orphans, read_layout, replaced
from downconvert.storage.names import Kind, State, file_name


def touch(directory: Path, *names: tuple[int, Kind, State]) -> None:
    for name in names:
        (directory / file_name(*name)).touch()


def test_files_are_sorted_by_purpose(tmp_path: Path) -> None:
    touch(
        tmp_path,
        (100, Kind.LOG, State.LIVE),
        (0, Kind.LOG, State.LIVE),
        (0, Kind.TIME_INDEX, State.LIVE),
        (7, Kind.OFFSET_INDEX, State.LIVE),
        (120, Kind.SNAPSHOT, State.LIVE),
        (50, Kind.LOG, State.DELETED),
        (60, Kind.LOG, State.CLEANED),
        (0, Kind.SNAPSHOT, State.TEMPORARY),
    )
    for name in ("leader-epoch-checkpoint", "partition.metadata", "quorum-state"):
        (tmp_path / name).touch()
    (tmp_path / "00000000000000000300.log").mkdir()
    layout = read_layout(tmp_path)
    assert list(layout.logs.items()) == [(0, State.LIVE), (100, State.LIVE)]
    assert layout.snapshots == [120]
    assert sorted(map(str, layout.leftovers)) == [
        "00000000000000000000.snapshot.tmp",
        "00000000000000000050.log.deleted",
        "00000000000000000060.log.cleaned",
    ]
    assert [str(name) for name in orphans(layout)] == ["00000000000000000007.index"]


def test_a_swap_replaces_its_source_segments(tmp_path: Path) -> None:
    touch(tmp_path, *((base, Kind.LOG, State.LIVE) for base in (0, 100, 200, 300)))
    touch(tmp_path, (100, Kind.LOG, State.SWAP), (100, Kind.OFFSET_INDEX, State.SWAP))
    layout = read_layout(tmp_path)
    assert layout.logs == {0: State.LIVE, 100: State.SWAP, 200: State.LIVE, 300: State.LIVE}
    assert sorted(replaced(layout, swap_end=300)) == [100, 200]


def test_without_a_swap_nothing_is_replaced(tmp_path: Path) -> None:
    touch(tmp_path, (0, Kind.LOG, State.LIVE), (0, Kind.OFFSET_INDEX, State.SWAP))
    assert replaced(read_layout(tmp_path), swap_end=10**9) == []


@pytest.mark.parametrize(("cleaned", "counts"), [(50, False), (100, False), (101, True)])
def test_a_swap_of_an_unfinished_split_does_not_count(
    tmp_path: Path, cleaned: int, counts: bool
) -> None:
    touch(tmp_path, (0, Kind.LOG, State.LIVE), (100, Kind.LOG, State.SWAP))
    touch(tmp_path, (cleaned, Kind.LOG, State.CLEANED))
    layout = read_layout(tmp_path)
    assert (100 in layout.logs) == counts
    assert (len(layout.leftovers) == 2) != counts


def test_a_missing_directory_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_layout(tmp_path / "none")
