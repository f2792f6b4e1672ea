"""Blobs: all their bytes and no others, whatever they are packed in."""

import gzip
import os
from pathlib import Path

import pytest

from downconvert.spark.stores import blobs
from downconvert.spark.stores.blobs import Blob, inflated
from downconvert.spark.stores.chunks import Chunks
from downconvert.storage.errors import CorruptFileError

DATA = os.urandom(5000)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which the blob has other bytes before and after it."""
    monkeypatch.setattr(blobs, "PIECE_SIZE", 1000)
    (tmp_path / "object").write_bytes(b"before" + DATA + b"after")
    return tmp_path / "object"


def test_a_blob_has_no_bytes_around_its_part(path: Path) -> None:
    blob = Blob(str(path), len(DATA), 6)
    assert blob.read() == DATA
    assert [len(piece) for piece in blob.pieces()] == [1000] * 5
    assert Blob(str(path), 0, 6).read() == b""


def test_an_open_blob_ends_at_its_size(path: Path) -> None:
    reader = Blob(str(path), len(DATA), 6).open()
    try:
        assert reader.read(10, 10_000) == DATA[10:]
        assert reader.read(len(DATA), 1) == reader.read(len(DATA) + 1, 1) == b""
    finally:
        reader.close()


def test_a_saved_blob_keeps_its_time(path: Path, tmp_path: Path) -> None:
    Blob(str(path), len(DATA), 6, modified=1_600_000_000_123_456_789).save(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == DATA
    assert (tmp_path / "saved").stat().st_mtime_ns == 1_600_000_000_123_456_789


def test_a_small_file_is_saved_as_it_is_now(path: Path, tmp_path: Path) -> None:
    """Brokers replace their checkpoints between a listing and a read."""
    listed, target = Blob(str(path), path.stat().st_size), tmp_path / "saved"
    for now in (DATA, DATA[:10], DATA + DATA):
        path.write_bytes(now)
        listed.save_current(target)
        assert target.read_bytes() == now


def test_a_part_of_a_file_is_saved_as_it_was_found(path: Path, tmp_path: Path) -> None:
    """Bytes after a part belong to another one, and packed bytes are not the content."""
    packed = tmp_path / "packed"
    chunks = Chunks(1000, len(DATA), tuple([1000] * 5), False, None)
    for part, content in (
        (Blob(str(path), len(DATA), 6), DATA),
        (Blob(str(path), 0), b""),
        (_blob(packed, gzip.compress(DATA)), DATA),
        (Blob(str(path), 3000, chunks=chunks), (b"before" + DATA)[:3000]),
    ):
        part.save_current(tmp_path / "saved")
        assert (tmp_path / "saved").read_bytes() == content
    with pytest.raises(CorruptFileError, match=f"ends at byte {len(DATA)} of {len(DATA) + 1}"):
        Blob(str(path), len(DATA) + 1, 11).save_current(tmp_path / "saved")


def test_a_blob_that_ends_too_early_is_damage(path: Path) -> None:
    size = path.stat().st_size
    with pytest.raises(CorruptFileError, match=f"ends at byte {size - 6} of {size}"):
        Blob(str(path), size, 6).read()


def _blob(path: Path, data: bytes) -> Blob:
    path.write_bytes(data)
    return Blob(str(path), len(data), is_gzipped=True)


@pytest.mark.parametrize("padding", [b"", b"\0" * 700])
def test_members_of_a_gzip_are_one_after_another(path: Path, padding: bytes) -> None:
    packed = gzip.compress(DATA[:3000]) + padding + gzip.compress(DATA[3000:]) + padding
    blob = _blob(path, packed)
    assert blob.read() == DATA
    file, damage = inflated(blob)
    assert damage is None
    try:
        assert os.pread(file, 10_000, 0) == DATA
    finally:
        os.close(file)
    with pytest.raises(ValueError, match="is gzipped"):
        blob.open()


@pytest.mark.parametrize("missing", [1, 8, 2000])
def test_a_gzip_that_ends_too_early_is_damage(path: Path, missing: int) -> None:
    packed = gzip.compress(DATA[:3000]) + gzip.compress(DATA[3000:])
    with pytest.raises(CorruptFileError, match="ends too early"):
        _blob(path, packed[:-missing]).read()


def test_a_gzip_of_more_than_a_segment_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "LOG_SIZE_MAX", len(DATA))
    assert _blob(path, gzip.compress(DATA)).read() == DATA
    with pytest.raises(CorruptFileError, match="more than a segment holds"):
        _blob(path, gzip.compress(DATA + b"x")).read()
