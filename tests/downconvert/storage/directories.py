"""Broken log directories from a seed: links that lead out, in, to themselves and nowhere, pipes,
empty files, files of zeros, damage, and invalid names.

Beside the log directory is a foreign one. Its contents and the whole batches of the logs are
remembered for comparison.

Not here: the commands on such a directory (cli/directory_commands.py)."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from downconvert.storage.names import CLEAN_SHUTDOWN, LOG_STARTS, RECOVERY_POINTS
from downconvert.storage.session import CLEAN
from records.batches.builder import build
from records.formats import V0, V1, V2, TimestampType
from records.record import Record

from .logs import batch

TOPICS: Final = ("a-0", "a-1", "b-0")
SEGMENT_FILES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
OTHER_FILES: Final = (
    "leader-epoch-checkpoint",
    "leader-epoch-checkpoint.tmp",
    "partition.metadata",
    "00000000000000000002.log.swap",
    "00000000000000000002.log.cleaned",
    "00000000000000000002.log.deleted",
    "00000000000000000000.log.aside",
    "2.log",
    ".log",
    "99999999999999999999.log",
    "00000000000000000002.logx",
)
FILES_OF_ALL: Final = (
    ".lock",
    CLEAN_SHUTDOWN,
    f"{CLEAN_SHUTDOWN}.tmp",
    RECOVERY_POINTS,
    LOG_STARTS,
    "cleaner-offset-checkpoint",
    "replication-offset-checkpoint",
    "meta.properties",
    "topic-configs",
    "c-0",
    "a-0.0123456789abcdef0123456789abcdef-delete",
)
State = dict[str, tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole batches that were in a log: the run of one `build`."""

    partition: str
    base: int  # of its segment
    values: tuple[bytes, ...]  # each of which no other record has
    data: bytes


@dataclass(slots=True)
class Directory:
    """A log directory in `root`, which has nothing but what was made here."""

    root: Path
    random: Random
    batches: list[Batch] = field(default_factory=list)
    made: list[str] = field(default_factory=list)  # what was done to it, for who looks into a case

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def outside(self) -> Path:
        return self.root / "outside"


def build_directory(root: Path, random: Random) -> Directory:
    """`root` is an empty directory."""
    self = Directory(root, random)
    self.logs.mkdir()
    for name in random.sample(TOPICS, random.randint(1, len(TOPICS))):
        _fill(self, name)
    (self.outside / "d-0").mkdir(parents=True)
    (self.outside / "d-0" / "precious").write_bytes(b"of somebody else")
    (self.outside / "precious").write_bytes(b"of somebody else " * 40)
    for path in (self.outside / "a.log", self.outside / "d-0" / "00000000000000000000.log"):
        path.write_bytes(batch(0, 1) + batch(2))
    if random.random() < 0.4:
        (self.logs / CLEAN_SHUTDOWN).write_bytes(CLEAN)
    if random.random() < 0.3:
        noted = "".join(f"{t.replace('-', ' ')} {random.choice((0, 3, 9))}\n" for t in TOPICS)
        (self.logs / RECOVERY_POINTS).write_text(f"0\n{len(TOPICS)}\n{noted}")
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        _spoil(self)
    return self


def make_batch(name: str, base: int, offsets: range, magic: int = V2, size: int = 0) -> Batch:
    """A run of records with a key each, so that no cleaner takes one."""
    kind = TimestampType.NONE if magic == V0 else TimestampType.CREATE
    values = tuple(b"<%b %d>" % (name.encode(), offset) + b"." * size for offset in offsets)
    time = -1 if magic == V0 else 1000
    records = [Record(o, time, kind, v[:20], v) for o, v in zip(offsets, values, strict=True)]
    return Batch(name, base, values, build(records, magic=magic))


def state_of(path: Path) -> State:
    """The kind of each entry below a directory, and its bytes or its target."""
    found: State = {}
    for place, directories, files in os.walk(path):
        for name in (*directories, *files):
            one = Path(place, name)
            key = str(one.relative_to(path))
            if one.is_symlink():
                found[key] = ("link", os.fsencode(one.readlink()))
            elif one.is_dir():
                found[key] = ("directory", b"")
            elif one.is_file():
                found[key] = ("file", one.read_bytes())
            else:
                found[key] = ("other", b"")
    return found


def _fill(self: Directory, name: str) -> None:
    random, offset = self.random, 0
    path = self.logs / name
    path.mkdir()
    for _ in range(random.choice((1, 1, 2, 3))):
        base, data = offset, b""
        for _ in range(random.choice((0, 1, 3, 6))):
            magic = random.choice((V2, V2, V2, V1, V0))
            offsets = range(offset, offset + random.choice((1, 2)))
            one = make_batch(name, base, offsets, magic, random.choice((0, 40, 900)))
            self.batches.append(one)
            data += one.data
            offset = offsets[-1] + 1
        (path / f"{base:020}.log").write_bytes(data)
        if random.random() < 0.8:
            for kind in (".index", ".timeindex"):
                (path / f"{base:020}{kind}").touch()
        offset += random.choice((0, 0, 1)) or (offset == base)


# --- what may be wrong with it


def _spoil(self: Directory) -> None:
    path = _place(self)
    spoil = self.random.choice(SPOILS)
    self.made.append(f"{spoil.__name__} {path.relative_to(self.root)}")
    spoil(self, path)
    _forget_lost(self)


def _place(self: Directory) -> Path:
    """A file of a log, whether it is there or not, or one of the directory."""
    random = self.random
    if random.random() < 0.25:
        return self.logs / random.choice((*FILES_OF_ALL, *TOPICS))
    partition = self.logs / random.choice(TOPICS)
    if partition.is_symlink() or not partition.is_dir():
        return partition
    there = [p for p in partition.iterdir() if p.suffix in SEGMENT_FILES]
    logs = [p for p in there if p.suffix == ".log"]
    if there and random.random() < 0.8:
        return random.choice(sorted(logs if logs and random.random() < 0.8 else there))
    name = random.choice(
        (*OTHER_FILES, f"{random.randrange(12):020}{random.choice(SEGMENT_FILES)}")
    )
    return partition / name


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link_out(self: Directory, path: Path) -> None:
    _clear(path)
    inside = path.parent == self.logs and self.random.random() < 0.9
    targets = ("d-0", ".") if inside else ("precious", "a.log", "d-0/00000000000000000000.log")
    path.symlink_to(self.outside / self.random.choice(targets))


def link_inwards(self: Directory, path: Path) -> None:
    others = [p for p in sorted(self.logs.rglob("*.log")) if p.is_file() and p != path]
    _clear(path)
    if path.parent == self.logs:
        path.symlink_to(self.random.choice(TOPICS))
    elif others and (target := self.random.choice(others)).exists():
        path.symlink_to(target)


def link_to_itself(_: Directory, path: Path) -> None:
    _clear(path)
    path.symlink_to(path)


def link_to_nothing(self: Directory, path: Path) -> None:
    _clear(path)
    path.symlink_to(self.random.choice((Path("nowhere"), self.outside / "not there")))


def hard_link(self: Directory, path: Path) -> None:
    """The file has a second name outside, as a backup of links has; or is one from there."""
    second = self.outside / f"second name {len(self.made)}"
    if path.is_file() and not path.is_symlink():
        second.hardlink_to(path)
    elif not path.is_dir() and path.parent.is_dir() and not path.parent.is_symlink():
        _clear(path)
        path.hardlink_to(self.outside / "a.log")


def pipe(_: Directory, path: Path) -> None:
    _clear(path)
    os.mkfifo(path)


def directory(_: Directory, path: Path) -> None:
    _clear(path)
    path.mkdir()


def empty_file(_: Directory, path: Path) -> None:
    _clear(path)
    path.touch()


def zeros(self: Directory, path: Path) -> None:
    _clear(path)
    path.write_bytes(bytes(self.random.choice((1, 17, 61, 5000))))


def noise(self: Directory, path: Path) -> None:
    _clear(path)
    path.write_bytes(self.random.randbytes(self.random.choice((1, 61, 3000))))


def damage(self: Directory, path: Path) -> None:
    if path.is_file() and not path.is_symlink() and (data := bytearray(path.read_bytes())):
        data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        path.write_bytes(data)


def torn_end(self: Directory, path: Path) -> None:
    if path.is_file() and not path.is_symlink():
        data = path.read_bytes()
        end = self.random.choice((batch(900)[:-1], bytes(100), self.random.randbytes(30)))
        path.write_bytes(self.random.choice((data[: len(data) * 2 // 3], data + end)))


SPOILS: Final[tuple[Callable[[Directory, Path], None], ...]] = (
    *(link_out, link_out, link_inwards, link_to_itself, link_to_nothing, hard_link),
    *(pipe, directory),
    *(empty_file, zeros, noise, damage, damage, damage, torn_end, torn_end),
)


def _forget_lost(self: Directory) -> None:
    """Batches that are not whole any more, or that no file of their log has."""
    found: dict[tuple[str, int], bytes] = {}
    for one in self.batches:
        path = self.logs / one.partition / f"{one.base:020}.log"
        is_there = path.is_file() and not path.is_symlink() and not path.parent.is_symlink()
        found[one.partition, one.base] = path.read_bytes() if is_there else b""
    self.batches = [one for one in self.batches if one.data in found[one.partition, one.base]]
