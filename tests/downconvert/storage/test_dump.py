"""Every small file of a log is read, whatever broker wrote it."""

from pathlib import Path

import pytest

from downconvert.storage import CorruptFileError, CorruptIndexError
from downconvert.storage.dump import can_dump, dump_entries

from . import brokers

LOG = Path("3.9.1/log")


@pytest.mark.parametrize("directory", brokers.directories())
def test_every_small_file_of_a_brokers_directory_is_read(real: Path, directory: str) -> None:
    suffixes = {".index", ".timeindex", ".txnindex", ".snapshot", ".metadata", ".properties"}
    count = 0
    for path in (real / directory).rglob("*"):
        if path.is_file():
            is_known = path.suffix in suffixes or path.name.endswith("-checkpoint")
            assert can_dump(path) == is_known, path
            if is_known:
                count += len(list(dump_entries(path)))
    assert count > 10


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("rolled-0/00000000000000000170.index", {"offset": 179, "position": 1913}),
        ("rolled-0/00000000000000000170.timeindex", {"timestamp": 1700000179000, "offset": 179}),
        (
            "txn-none-0/00000000000000000010.txnindex",
            {"producerId": 0, "firstOffset": 11, "lastOffset": 18, "lastStableOffset": 19},
        ),
        ("log-start-offset-checkpoint", {"topic": "trimmed", "partition": 0, "offset": 178}),
        ("rolled-0/leader-epoch-checkpoint", {"epoch": 0, "startOffset": 0}),
    ],
)
def test_entries_have_the_names_of_kafkas_tool(
    real: Path, name: str, first: dict[str, int | str]
) -> None:
    assert next(iter(dump_entries(real / LOG / name))) == first


def test_a_directory_belongs_to_a_broker(real: Path) -> None:
    (meta,) = dump_entries(real / LOG / "meta.properties")
    assert meta["version"] == meta["nodeId"] == 1
    assert set(meta) == {"version", "nodeId", "clusterId", "directoryId"}
    (topic,) = dump_entries(real / LOG / "rolled-0" / "partition.metadata")
    assert len(str(topic["topicId"])) == 22


def test_zeros_in_a_running_brokers_index_are_not_entries(real: Path) -> None:
    path = real / "3.9.1/log-running/rolled-0/00000000000000000340.index"
    assert path.stat().st_size == 65_536
    assert len(list(dump_entries(path))) == 21


def test_damaged_or_missing_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.snapshot").write_bytes(b"\0\1" + bytes(20))
    with pytest.raises(CorruptFileError, match="checksum"):
        list(dump_entries(tmp_path / "00000000000000000000.snapshot"))
    (tmp_path / "00000000000000000000.txnindex").write_bytes(b"\1" * 34)
    with pytest.raises(CorruptIndexError, match="version 257"):
        list(dump_entries(tmp_path / "00000000000000000000.txnindex"))
    for name in ("leader-epoch-checkpoint", "meta.properties", "00000000000000000001.index"):
        with pytest.raises(FileNotFoundError):
            list(dump_entries(tmp_path / name))


def test_other_files_are_not_read(tmp_path: Path) -> None:
    for name in ("00000000000000000000.log", "quorum-state", ".lock"):
        assert not can_dump(tmp_path / name)
        with pytest.raises(ValueError, match="is not the name of"):
            list(dump_entries(tmp_path / name))
