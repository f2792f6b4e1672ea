"""Runs a command or a broker on a broken directory, and checks the result.

The command may die at any disk operation, or a file may be moved or replaced then. Afterwards
nothing outside of the log directory has changed. Every record of a whole batch is in a log or in a
file that was set aside, unless retention removed it. The command has reported its changes.

Not here: the directories (storage/directories.py), their number (bench/directories.py)."""

import gc
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.operating.log_files import LogFiles
from downconvert.cli.app import run
from downconvert.storage import LogDir, StorageError
from downconvert.storage.disk.faulty_disk import Killed
from downconvert.storage.disk.files import Disk, DiskFile
from downconvert.storage.names import parse_file_name
from records import RecordsError
from tests.downconvert.storage.directories import (
    TOPICS,
    Directory,
    State,
    build_directory,
    make_batch,
    state_of,
)

OPERATIONS: Final = {
    Disk: ("open", "rename", "set_modified", "remove", "make_directory", "remove_directory"),
    DiskFile: ("write_at", "truncate"),
}
SYNCS: Final = {Disk: "sync_directory", DiskFile: "sync"}  # counted, and nothing more
FAULTS: Final = ("none", "none", "death", "death", "moved", "replaced")
COMMAND_OPERATIONS_MAX: Final = 60


@dataclass(slots=True)
class Ran:
    """The exit code of a command, None if it died, and its output."""

    code: int | None
    out: str
    err: str


def check_case(root: Path, seed: int) -> str:
    """Runs one case in an empty directory. Returns the command and the outcome. AssertionError."""
    random = Random(seed)
    directory = build_directory(root, random)
    outside, before = state_of(directory.outside), state_of(directory.logs)
    arguments = random.choice(COMMANDS)(directory)
    fault = random.choice(FAULTS)
    with _disk(directory, fault, random.randrange(1, COMMAND_OPERATIONS_MAX)):
        ran = _serve(directory) if arguments[0] == "serve" else _run(arguments)
    links = {name: found for name, found in before.items() if found[0] in ("link", "other")}
    what = f"{' '.join(arguments)} [{fault}, {', '.join(directory.made) or 'sound'}]"
    try:
        _check(directory, arguments, outside)
        if arguments[0] in ("convert", "inspect", ""):
            now = state_of(directory.logs)
            assert all(now.get(name) == found for name, found in links.items()), "replaced"
            assert _is_link(directory, arguments), "replaced the link that it was to write to"
        if fault == "none" and arguments[0] == "recover":
            _check_report(before, state_of(directory.logs), ran, arguments)
        for options in (["--everything"], []):  # what is left is brought into order, and then it is
            settled = _logs_of(state_of(directory.logs))
            with _disk(directory, "none", 0):
                assert _run(["recover", *options, str(directory.logs)]).code in (0, 2)
            _check(directory, arguments, outside)
        assert _logs_of(state_of(directory.logs)) == settled, "recovered twice, and it differs"
    except AssertionError as error:
        raise AssertionError(f"{error}\nin {what}: {ran}") from error
    return f"{arguments[0]} {fault}" + (" died" if ran.code is None else "")


def _is_link(directory: Directory, arguments: Sequence[str]) -> bool:
    """Whether a link that a command was to write to is one still."""
    link = directory.root / "new link"
    return str(link) not in arguments or link.is_symlink()


# --- running


def _run(arguments: Sequence[str]) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    code: int | None = None
    with redirect_stdout(out), redirect_stderr(err), suppress(Killed):
        code = run(arguments)
    ran = Ran(code, out.getvalue(), err.getvalue())
    if code is not None:
        assert code in (0, 2), ran
        assert out.getvalue() or err.getvalue(), f"{arguments} said nothing"
    return ran


def _serve(directory: Directory) -> Ran:
    """Does to the logs the same as a writable broker, without its sockets."""
    random = directory.random
    with suppress(Killed, OSError, RecordsError):
        with LogDir.open(directory.logs, writable=True) as log_dir:
            broker = Broker(log_dir, BrokerConfig(is_writable=True))
            files = LogFiles(broker)
            for now in range(random.randrange(12)):
                partitions = list(broker.topics.partitions())
                if not partitions:
                    break
                partition = random.choice(partitions)
                with suppress(OSError, StorageError):
                    _serve_once(directory, broker, str(partition.name))
                files.look(20.0 * now)
        return Ran(0, "", "")
    return Ran(None, "", "")


def _serve_once(directory: Directory, broker: Broker, name: str) -> None:
    random, topic = directory.random, name.rpartition("-")[0]
    index = int(name.rpartition("-")[2])
    partition = broker.topics.partition(topic, index)
    assert partition is not None
    match random.choice(("append", "append", "append", "roll", "flush", "release", "delete")):
        case "append":
            writer = partition.log.writer
            end = writer.end_offset
            one = make_batch(
                f"{name} served", 0, range(end, end + 2), size=random.choice((0, 5000))
            )
            writer.append(one.data)
            directory.batches.append(one)
        case "delete":
            if random.random() < 0.6:
                kept = [one for one in directory.batches if not one.partition.startswith(topic)]
                directory.batches = kept
                broker.topics.delete(topic)
        case change:
            getattr(partition.log.writer, change)()


@contextmanager
def _disk(directory: Directory, fault: str, at: int) -> Iterator[None]:
    """In the block the disk syncs nothing, and what `fault` says happens at operation `at`."""
    count, is_dead = 0, False

    def step() -> None:
        nonlocal count, is_dead
        count += 1
        if is_dead or (count == at and fault == "death"):
            is_dead = True
            raise Killed
        if count == at and fault != "none":
            _interfere(directory, fault)

    def wrapped(operation: Callable[..., Any] | None) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            step()
            return operation(*arguments) if operation is not None else None

        return call

    patches = [
        patch.object(of, name, wrapped(getattr(of, name)))
        for of, names in OPERATIONS.items()
        for name in names
    ]
    patches += [patch.object(of, name, wrapped(None)) for of, name in SYNCS.items()]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        if is_dead:
            gc.collect()  # what is still open is closed here, and not in the next case
        for one in patches:
            one.stop()


def _interfere(directory: Directory, fault: str) -> None:
    """Somebody moves a file of a log away, and may put something in its place."""
    files = [
        path
        for path in sorted(directory.logs.glob("*-*/*"))
        if path.is_file() and not path.is_symlink() and not path.parent.is_symlink()
    ]
    if not files:
        return
    path = directory.random.choice(files)
    moved = directory.root / "moved"
    moved.mkdir(exist_ok=True)
    path.rename(moved / path.name)
    if fault == "replaced":
        if directory.random.random() < 0.5:
            path.symlink_to(directory.outside / "precious")
        else:
            path.write_bytes(bytes(100))


# --- checks


def _check(directory: Directory, arguments: Sequence[str], outside: State) -> None:
    assert state_of(directory.outside) == outside, "something outside was changed"
    found = b"".join(
        content
        for name, (kind, content) in state_of(directory.root).items()
        if kind == "file" and not name.startswith(("outside", "new"))
    )
    for partition in {one.partition for one in directory.batches}:
        ours = [one for one in directory.batches if one.partition == partition]
        values = [value for one in ours for value in one.values]
        kept = [value in found for value in values]
        if arguments[0] == "retention":  # takes them from the beginning
            if (directory.root / "moved").exists():  # of which the beginning may be kept
                continue
            kept = kept[kept.index(True) if True in kept else len(kept) :]
        looked_at = values[len(values) - len(kept) :]
        lost = [v[:20] for v, is_kept in zip(looked_at, kept, strict=True) if not is_kept]
        assert not lost, f"lost: {lost}"


def _check_report(before: State, after: State, ran: Ran, arguments: Sequence[str]) -> None:
    """Recovery has named each log file that it changed, and what it set aside."""
    if "--dry-run" in arguments:
        assert _logs_of(before) == _logs_of(after), "changed, though it should not"
        return
    reports = {r["partition"]: r for r in map(json.loads, ran.out.splitlines())}
    for name in before.keys() | after.keys():
        partition, _, file = name.rpartition("/")
        was, now = before.get(name), after.get(name)
        if was == now or partition not in TOPICS:
            continue
        report = reports[partition]
        assert "offline" not in report, f"{name} was changed, and is said to be left as it is"
        if ".log.aside" in file and not file.endswith(".tmp"):
            assert file in report["setAside"], f"{name} was set aside, and that is not said"
        elif file.endswith(".log") and was is not None and was[1] and parse_file_name(file):
            cut = {f"{segment['baseOffset']:020}.log" for segment in report["segments"]}
            aside = {one.partition(".aside")[0] for one in report["setAside"]}
            swapped = f"{name}.swap" in before
            assert file in cut | aside | set(report["removed"]) or swapped, f"{name} changed"


def _logs_of(state: State) -> State:
    return {name: found for name, found in state.items() if ".log" in name}


# --- commands


def _target(directory: Directory) -> str:
    """The log directory, or one of its partitions."""
    there = [name for name in TOPICS if (directory.logs / name).is_dir()]
    if there and directory.random.random() < 0.3:
        return str(directory.logs / directory.random.choice(there))
    return str(directory.logs)


def _recover(directory: Directory) -> list[str]:
    options = directory.random.choice(([], [], ["--everything"], ["--dry-run"]))
    return ["recover", "--json", *options, str(directory.logs)]


def _compact(directory: Directory) -> list[str]:
    roll = directory.random.choice(([], ["--roll"]))
    return ["compact", *roll, "--topic", "*", _target(directory)]


def _retention(directory: Directory) -> list[str]:
    limit = directory.random.choice(("--retention-ms=1", "--retention-bytes=2000"))
    return ["retention", limit, "--topic", "*", _target(directory)]


def _upgrade(directory: Directory) -> list[str]:
    where = directory.random.choice(
        ("--in-place", "--in-place", "--dry-run", str(directory.root / "new"))
    )
    return ["upgrade", _target(directory), where]


def _convert(directory: Directory) -> list[str]:
    random = directory.random
    files = sorted(p for p in directory.logs.rglob("*.log") if p.is_file()) or [directory.logs]
    out = random.choice(
        (
            directory.root / "new",
            directory.outside / "link",
            *(p for p in sorted(directory.logs.rglob("*")) if p.is_symlink() or p.is_fifo()),
        )
    )
    if out.name == "link":  # leads out, as a name in this directory
        out = directory.root / "new link"
        out.symlink_to(directory.outside / random.choice(("precious", "not there")))
    force = random.choice(([], ["--force"]))
    return ["convert", str(random.choice(files)), str(out), "--to-magic=1", *force]


def _empty(directory: Directory) -> list[str]:
    return [directory.random.choice(("recover", "inspect", "dump", "upgrade", "compact")), ""]


def _read(directory: Directory) -> list[str]:
    return ["inspect", str(directory.logs)]


COMMANDS: Final[tuple[Callable[[Directory], list[str]], ...]] = (
    *(_recover, _recover, _recover, _compact, _retention, _upgrade, _convert, _empty, _read),
    *(lambda _: ["serve"],) * 3,
)
