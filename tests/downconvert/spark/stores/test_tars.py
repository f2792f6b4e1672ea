"""The members of a tar are read in place, and a tar that was cut is damage."""

import io
import tarfile
from pathlib import Path

import pytest

from downconvert.spark.stores.blobs import Blob
from downconvert.spark.stores.tars import members
from downconvert.storage.errors import CorruptFileError

BEFORE = b"before"


def made(path: Path, files: dict[str, bytes]) -> Blob:
    """A tar that begins after other bytes, as a member of another tar does."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as tar:
        folder = tarfile.TarInfo("logs")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), 1_700_000_000
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "logs"
        tar.addfile(link)
    content = found.getvalue()
    path.write_bytes(BEFORE + content)
    return Blob(str(path), len(content), len(BEFORE))


def test_members_are_found_where_they_are(tmp_path: Path) -> None:
    files = {"./logs/t-0/a.log": b"x" * 1000, "logs//t-0/b.log": b"y" * 70_000, "logs/empty": b""}
    blob = made(tmp_path / "a.tar", files)
    found = dict(members(blob))
    expected = [("logs", "t-0", "a.log"), ("logs", "t-0", "b.log"), ("logs", "empty")]
    assert list(found) == expected  # no folder and no link
    for parts, data in zip(expected, files.values(), strict=True):
        assert found[parts].read() == data
        assert found[parts].modified == 1_700_000_000 * 10**9


def test_a_tar_may_end_with_its_last_member_and_not_within_it(tmp_path: Path) -> None:
    """Its end mark is missing then, which other programs do not mind either."""
    blob = made(tmp_path / "a.tar", {"logs/a.log": b"x" * 1024})
    at = Path(blob.path).read_bytes().index(b"x" * 1024)
    end = at + 1024 - len(BEFORE)
    whole = Blob(blob.path, end, blob.start)
    assert [parts for parts, _ in members(whole)] == [("logs", "a.log")]
    with pytest.raises(CorruptFileError, match=r"ends within its member .logs/a\.log."):
        list(members(Blob(blob.path, end - 1, blob.start)))


def test_bytes_that_are_no_tar_are_damage(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"\xff" * 2000)
    with pytest.raises(CorruptFileError, match="no tar"):
        list(members(Blob(str(tmp_path / "a.tar"), 2000)))
