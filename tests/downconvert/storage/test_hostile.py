"""Directories with any content give records, or this project's errors."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from downconvert.storage import Log, LogConfig, LogDir
from downconvert.storage.cleaning.compact_log import compact
from downconvert.storage.cleaning.upgrade_log import survey_upgrade
from downconvert.storage.dump import can_dump, dump_entries
from downconvert.storage.inspection import inspect_log
from downconvert.storage.names import parse_file_name
from downconvert.storage.verify import verify_indexes
from records import RecordsError

from .logs import UNSYNCED

CONFIG = LogConfig(segment_bytes=10_000)
LOGS = (
    "3.9.1/log/txn-none-0",
    "3.9.1/log/compact-txn-0",
    "3.9.1/log-killed/rolled-0",
    "2.8.2/log/upgraded-0",
    "0.10.2.2/log/f09-rolled-0",
)


def mutate(path: Path, random: Random) -> None:
    """Does to some files what no broker would."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    for file in random.sample(files, min(len(files), random.choice((1, 2, 5)))):
        data = bytearray(file.read_bytes())
        kind = random.randrange(6)
        at = random.randrange(len(data) + 1)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data[at : at + 8] = random.randbytes(8)
        elif kind == 2:
            data[at:at] = random.randbytes(random.choice((1, 7, 100)))
        elif kind == 3:
            other = bytearray(random.choice(files).read_bytes())
            data[at : at + 200] = other[: random.choice((8, 12, 34, 200))]
        elif kind == 4:
            data[at : at + 4] = random.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4)))
        else:
            random.shuffle(data)
        file.write_bytes(data)
    if random.random() < 0.2:
        random.choice(files).unlink()


def only_our_errors(act: Callable[[], object]) -> None:
    with suppress(RecordsError, FileNotFoundError):
        act()


@pytest.mark.parametrize("seed", range(150))
def test_any_directory_content_raises_only_this_projects_errors(
    real: Path, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    name = random.choice(LOGS)
    path = tmp_path / Path(name).name
    shutil.copytree(real / name, path)
    for file in (real / name).parent.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    mutate(tmp_path, random)

    def read() -> None:
        with Log.open(path) as log:
            only_our_errors(lambda: list(log.records()))
            only_our_errors(lambda: list(log.records(isolation="read_committed")))
            only_our_errors(lambda: inspect_log(log, deep=True))
            for offset in (0, log.start_offset, 50, 100, log.end_offset - 1):
                only_our_errors(lambda offset=offset: log.read(offset, 1000))  # type: ignore[misc]
                only_our_errors(lambda: log.offset_for(random.randrange(2 * 10**12)))

    only_our_errors(read)
    only_our_errors(lambda: survey_upgrade(path))
    for file in sorted(path.iterdir()):
        found = parse_file_name(file.name)
        if can_dump(file):
            only_our_errors(lambda file=file: list(dump_entries(file)))  # type: ignore[misc]
        elif found is not None:
            only_our_errors(lambda at=found.offset: list(verify_indexes(path, at)))  # type: ignore[misc]
    only_our_errors(lambda: LogDir.open(tmp_path).meta)

    def recover() -> None:
        with LogDir.open(tmp_path, writable=True, files=UNSYNCED, verify_all=True) as log_dir:
            assert [log.writer.recovery for log in log_dir.logs.values()]
        with LogDir.open(tmp_path, writable=True, files=UNSYNCED, verify_all=True) as log_dir:
            for log in log_dir.logs.values():
                assert log.writer.recovery.bytes_cut == 0
                only_our_errors(lambda log=log: compact(log, CONFIG, now=0, files=UNSYNCED))  # type: ignore[misc]

    only_our_errors(recover)
