"""A disk that fails: it loses unsynced data when the machine is killed, is full, or has I/O errors.

Operations are applied to real files below a directory, so that these can be mapped and read. The
disk tracks which data was synced. The machine is killed (`Killed`) at a given operation, or in the
middle of it if it is a write. `survivors` then makes a directory as it might be found afterwards.
Some unsynced pages are lost, sizes are between the old and the new ones, and only the first changes
to names are kept.

A failing operation (`fail_next`) fails once, as in Linux: after a failed sync the system drops the
pages that it could not write, and the next sync succeeds.

Unlike with `Disk`, only `sync` makes data safe here. This is for tests and simulations: no broker
writes through it."""

import errno
from pathlib import Path
from random import Random
from typing import Final

from downconvert.storage.errors import DiskFullError
from records.kernel import Buffer

from .files import DISK, WritableFile

PAGE_SIZE: Final = 4096


class Killed(BaseException):
    """The machine was killed. Not an Exception, so that no handler cleans up after it."""


class Inode:
    """A file under any name: its content, and the synced part."""

    def __init__(self, path: Path, safe: bytes) -> None:
        self.path: Path | None = path  # None if it has no name any more
        self.safe = safe
        self._last = b""
        self._dropped: bytes | None = None  # the content when a sync failed

    @property
    def content(self) -> bytes:
        return self._last if self.path is None else self.path.read_bytes()

    def sync(self) -> None:
        content, dropped = self.content, self._dropped
        if dropped is None:
            self.safe = content
            return
        found = bytearray(content)
        for at in range(0, len(content), PAGE_SIZE):
            page = slice(at, at + PAGE_SIZE)
            if content[page] == dropped[page]:  # not written since
                found[page] = self.safe[page].ljust(len(content[page]), b"\0")
        self.safe = bytes(found)

    def fail_to_sync(self) -> None:
        self._dropped = self.content

    def unlink(self) -> None:
        self._last, self.path = self.content, None

    def after_crash(self, random: Random) -> bytes:
        safe, content = self.safe, self.content
        if random.random() < 0.2:
            return safe
        if random.random() < 0.3:
            return content
        low, high = sorted((len(safe), len(content)))
        size = random.choice((low, high, random.randint(low, high)))
        found = bytearray(size)
        for at in range(0, size, PAGE_SIZE):
            page = random.choice((safe, content))[at : min(at + PAGE_SIZE, size)]
            found[at : at + len(page)] = page
        return bytes(found)


class FaultyDisk:
    """The `Files` of a machine that is killed at operation number `dies_at`, or whose disk is
    full."""

    def __init__(
        self,
        root: Path,
        *,
        dies_at: int | None = None,
        full_from: int | None = None,
        full_until: int | None = None,
        random: Random | None = None,
    ) -> None:
        self.root = root
        self.operations = 0
        self._dies_at = dies_at
        self._full = range(full_from, full_until or 2**63) if full_from is not None else range(0)
        self._random = random or Random(0)
        self._failing: set[str] = set()
        self._full_for: Path | None = None
        self._names = {f: Inode(f, f.read_bytes()) for f in root.rglob("*") if f.is_file()}
        self._safe_names = dict(self._names)
        self._changes: list[tuple[Path | None, Path | None, Inode]] = []  # old name, new name

    def dies_in(self, operations: int) -> None:
        """Kills the machine after this many more operations."""
        self._dies_at = self.operations + operations

    def fill(self, *, is_full: bool) -> None:
        """Makes the disk full from now on, or gives it space again."""
        self._full = range(self.operations, 2**63) if is_full else range(0)
        self._full_for = None

    def fill_in(self, operations: int) -> None:
        """Makes the disk full after this many more operations."""
        self._full = range(self.operations + operations, 2**63)

    def fill_for(self, path: Path) -> None:
        """Makes the disk full for this file."""
        self._full_for = path

    def fail_next(self, operation: str) -> None:
        """Makes the next `write`, `truncate` or `sync` of a file fail with an I/O error."""
        self._failing.add(operation)

    def dies_never(self) -> None:
        self._dies_at = None

    # --- Files

    def open(self, path: Path) -> WritableFile:
        self._step(None if path in self._names else path)
        if path not in self._names:
            path.touch()
            self._change(None, path, Inode(path, b""))
        return FaultyFile(self, DISK.open(path), self._names[path])

    def rename(self, source: Path, target: Path) -> None:
        if source.is_dir():
            self._rename_directory(source, target)
            return
        self._step(target)
        if target in self._names:
            self._names[target].unlink()
        DISK.rename(source, target)
        inode = self._names[source]
        inode.path = target
        self._change(source, target, inode)

    def set_modified(self, path: Path, nanoseconds: int) -> None:
        DISK.set_modified(path, nanoseconds)

    def remove(self, path: Path) -> None:
        self._step(None)
        if path in self._names:
            inode = self._names[path]
            inode.unlink()
            self._change(path, None, inode)
        DISK.remove(path)

    def make_directory(self, path: Path) -> None:
        self._step(path)
        DISK.make_directory(path)

    def remove_directory(self, path: Path) -> None:
        self._step(None)
        DISK.remove_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._step(None)
        changes = [c for c in self._changes if path in {n.parent for n in c[:2] if n is not None}]
        for change in changes:
            _apply(self._safe_names, change)
            self._changes.remove(change)

    # --- after the crash

    def survivors(self, target: Path) -> None:
        """Makes a directory as it might be found after the crash."""
        names = dict(self._safe_names)
        for change in self._changes[: self._random.randint(0, len(self._changes))]:
            _apply(names, change)
        for directory in sorted(p for p in self.root.rglob("*") if p.is_dir()):
            (target / directory.relative_to(self.root)).mkdir(parents=True, exist_ok=True)
        for path, inode in names.items():
            content = inode.after_crash(self._random)
            (target / path.relative_to(self.root)).write_bytes(content)

    # --- details

    def _rename_directory(self, source: Path, target: Path) -> None:
        """Renames a directory. This needs no space, and is synced at once with all files in the
        directory."""
        self._step(None)
        DISK.rename(source, target)
        for name in [name for name in self._names if source in name.parents]:
            inode = self._names[name]
            inode.path = target / name.relative_to(source)
            for change in [change for change in self._changes if change[2] is inode]:
                _apply(self._safe_names, change)
                self._changes.remove(change)
            for names in (self._names, self._safe_names):
                _apply(names, (name, inode.path, inode))

    def _change(self, old: Path | None, new: Path | None, inode: Inode) -> None:
        change = (old, new, inode)
        _apply(self._names, change)
        self._changes.append(change)

    def _fail(self, operation: str, path: Path) -> None:
        if operation in self._failing:
            self._failing.remove(operation)
            raise OSError(errno.EIO, "Input/output error", str(path))

    def _step(self, path: Path | None) -> None:
        """Counts an operation. `path`: the file that needs space."""
        self.operations += 1
        if self._dies_at is not None and self.operations >= self._dies_at:
            raise Killed
        if path is not None and (self.operations in self._full or path == self._full_for):
            raise DiskFullError(str(path))


class FaultyFile:
    """A file on that disk."""

    def __init__(self, disk: FaultyDisk, file: WritableFile, inode: Inode) -> None:
        self._disk = disk
        self._file = file
        self._inode = inode
        self.path = file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def write_at(self, data: Buffer, position: int) -> None:
        try:
            self._disk._step(self.path)
            self._disk._fail("write", self.path)
        except (Killed, DiskFullError, OSError):
            part = self._disk._random.randint(0, len(data))
            self._file.write_at(memoryview(data)[:part], position)
            raise
        self._file.write_at(data, position)

    def truncate(self, size: int) -> None:
        self._disk._step(None)
        self._disk._fail("truncate", self.path)
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk._step(None)
        try:
            self._disk._fail("sync", self.path)
        except OSError:
            self._inode.fail_to_sync()
            raise
        self._inode.sync()

    def close(self) -> None:
        self._file.close()


def _apply(names: dict[Path, Inode], change: tuple[Path | None, Path | None, Inode]) -> None:
    old, new, inode = change
    if old is not None:
        names.pop(old, None)
    if new is not None:
        names[new] = inode
