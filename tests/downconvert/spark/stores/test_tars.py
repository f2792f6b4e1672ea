"""The members of a tar are read in place, and a tar that was cut is damage."""

import gzip
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
    with pytest.raises(CorruptFileError, match="cannot be read as a tar"):
        list(members(Blob(str(tmp_path / "a.tar"), 2000)))


@pytest.mark.parametrize("at", [3, 130, 150, 257])  # its name, size, checksum and format
def test_a_damaged_header_is_no_end(tmp_path: Path, at: int) -> None:
    """The members behind it would be left out."""
    blob = made(tmp_path / "a.tar", {"logs/a.log": b"x" * 1000, "logs/b.log": b"y", "c": b"z"})
    data = bytearray(Path(blob.path).read_bytes())
    begin = data.index(b"logs/b.log")
    data[begin + at] ^= 1
    Path(blob.path).write_bytes(data)
    with pytest.raises(CorruptFileError, match=f"no member at byte {begin - len(BEFORE)}"):
        list(members(blob))
    with pytest.raises(CorruptFileError, match=f"no member at byte {begin - len(BEFORE)}"):
        list(members(Blob(blob.path, begin + 100 - len(BEFORE), blob.start)))


def test_a_tar_that_is_compressed_whatever_its_name_is_refused(tmp_path: Path) -> None:
    blob = made(tmp_path / "a.tar", {"logs/a.log": b"x" * 1000})
    data = gzip.compress(Path(blob.path).read_bytes()[len(BEFORE) :])
    (tmp_path / "b.tar").write_bytes(data)
    with pytest.raises(CorruptFileError, match="cannot be read as a tar"):
        list(members(Blob(str(tmp_path / "b.tar"), len(data))))


def with_member(path: Path, member: tarfile.TarInfo, data: bytes = b"") -> Blob:
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    path.write_bytes(found.getvalue())
    return Blob(str(path), len(found.getvalue()))


@pytest.mark.parametrize(("name", "is_read"), [("0.log", False), ("0.timeindex", True)])
def test_a_log_without_its_holes_is_not_left_out(tmp_path: Path, name: str, is_read: bool) -> None:
    """Its bytes are not one after the other. An index is not needed."""
    member = tarfile.TarInfo(name)
    member.type = tarfile.GNUTYPE_SPARSE
    blob = with_member(tmp_path / "a.tar", member)
    if is_read:
        assert list(members(blob)) == []
        return
    with pytest.raises(CorruptFileError, match="without its holes"):
        list(members(blob))


def test_a_hard_link_is_the_file_that_it_leads_to(tmp_path: Path) -> None:
    """Backups share unchanged segments between days, and a tar has each of them once."""
    target = tmp_path / "a.tar"
    with tarfile.open(target, "w") as tar:
        for number, name in enumerate(("monday/0.log", "tuesday/0.log", "wednesday/0.log")):
            member = tarfile.TarInfo(name)
            if number:
                member.type, member.linkname = tarfile.LNKTYPE, "monday/0.log"
            else:
                member.size = 3
            tar.addfile(member, None if number else io.BytesIO(b"abc"))
    found = {parts: blob.read() for parts, blob in members(Blob(str(target), 10_240))}
    assert found == {(day, "0.log"): b"abc" for day in ("monday", "tuesday", "wednesday")}


@pytest.mark.parametrize("time", ["1e30", "-5", "nan", "inf"])
def test_a_time_that_no_file_has_becomes_one(tmp_path: Path, time: str) -> None:
    """Files that are copied get the time of their member."""
    member = tarfile.TarInfo("a.log")
    member.pax_headers = {"mtime": time}
    ((_, found),) = members(with_member(tmp_path / "a.tar", member, b"x"))
    found.save(tmp_path / "a.log")
    assert (tmp_path / "a.log").read_bytes() == b"x"
