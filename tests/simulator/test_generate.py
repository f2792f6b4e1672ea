"""Generated segments are valid, and the same line makes the same ones."""

from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from downconvert.storage.indexes.offset_index import OffsetIndex
from downconvert.storage.verify import verify_indexes
from records import Codec, FileRecords
from records.batches.reader import Record, read
from records.units import KiB
from simulator import Workload, generate


def made(line: str, directory: Path) -> list[Record]:
    """The records of a workload's segments, checksums checked."""
    records: list[Record] = []
    for path in generate(Workload.parse(line), directory):
        with FileRecords.open(path) as log:
            records += read(log)
    return records


def test_the_same_line_gives_the_same_bytes(tmp_path: Path) -> None:
    line = Workload.parse("codec=mixed,size=64KiB,headers=0.5,nulls=0.1,gaps=0.1,seed=3")
    first, second = (generate(line, tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    other = Workload.parse("codec=mixed,size=64KiB,headers=0.5,nulls=0.1,gaps=0.1,seed=4")
    assert generate(other, tmp_path / "c")[0].read_bytes() != first[0].read_bytes()


def test_sizes_are_as_requested(tmp_path: Path) -> None:
    records = made("record=100..200,size=64KiB,keys=0", tmp_path)
    assert all(100 <= len(record.value or b"") <= 200 for record in records)
    assert 64 * KiB <= sum(len(record.value or b"") for record in records) < 65 * KiB


def test_shares_are_about_as_requested(tmp_path: Path) -> None:
    records = made("record=50,size=64KiB,keys=0.5,headers=0.5,nulls=0.2", tmp_path)
    count = len(records)
    assert 0.4 < sum(record.key is not None for record in records) / count < 0.6
    assert 0.4 < sum(bool(record.headers) for record in records) / count < 0.6
    assert 0.1 < sum(record.value is None for record in records) / count < 0.3


def test_offsets_have_gaps_only_if_requested(tmp_path: Path) -> None:
    whole = [record.offset for record in made("size=32KiB", tmp_path / "whole")]
    assert whole == list(range(len(whole)))
    holed = [record.offset for record in made("size=32KiB,gaps=0.3", tmp_path / "holed")]
    assert holed[-1] > len(holed)


def test_segments_are_named_by_their_first_offset_and_not_too_large(tmp_path: Path) -> None:
    paths = generate(Workload.parse("size=64KiB,segment=20KiB,batch=4KiB"), tmp_path)
    assert len(paths) > 2
    for path in paths:
        assert path.stat().st_size <= 20 * KiB
        with FileRecords.open(path) as log:
            assert path.name == f"{next(log.batches()).base_offset:020}.log"


def test_segments_have_indexes(tmp_path: Path) -> None:
    paths = generate(Workload.parse("size=64KiB,segment=20KiB,batch=2KiB,gaps=0.1"), tmp_path)
    for path in paths:
        assert not list(verify_indexes(tmp_path, int(path.stem)))
        index = OffsetIndex.open(path.with_suffix(".index"), int(path.stem))
        assert len(index) > 0
        index.close()
        assert path.with_suffix(".timeindex").stat().st_size > 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_have_the_requested_codec_and_size(codec: str, tmp_path: Path) -> None:
    path, *_ = generate(Workload.parse(f"codec={codec},size=64KiB,batch=8KiB"), tmp_path)
    with FileRecords.open(path) as log:
        headers = list(log.batches())
    assert {header.codec for header in headers} == {Codec[codec.upper()]}
    assert 6 <= len(headers) <= 8


def test_text_compresses_about_as_events_do(tmp_path: Path) -> None:
    plain, packed = (
        sum(path.stat().st_size for path in generate(Workload.parse(line), tmp_path / line))
        for line in ("size=256KiB,random=0", "size=256KiB,random=0,codec=gzip")
    )
    assert 2 < plain / packed < 5


def test_progress_tells_the_bytes_so_far(tmp_path: Path) -> None:
    sizes: list[int] = []
    generate(Workload.parse("size=64KiB"), tmp_path, sizes.append)
    assert sizes == sorted(sizes)
    assert sizes[-1] >= 64 * KiB


def test_existing_segments_are_not_changed(tmp_path: Path) -> None:
    generate(Workload.parse("size=1KiB"), tmp_path)
    with pytest.raises(FileExistsError, match="holds segments already"):
        generate(Workload.parse("size=1KiB"), tmp_path)


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is not a directory"):
        generate(Workload.parse("size=1KiB"), tmp_path / "file")


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    """Closing the file fails, too, because its buffer cannot be written."""
    soft, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (20 * KiB, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            generate(Workload.parse("size=64KiB,segment=64KiB,batch=1KiB"), tmp_path)
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_the_last_batch_ends_where_the_size_is_reached(tmp_path: Path) -> None:
    records = made("record=100,size=1000,batch=16KiB,keys=0,random=1", tmp_path)
    assert len(records) == 10
