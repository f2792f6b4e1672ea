"""Writes the segments of a workload: v2 batches as from a producer and a broker, and indexes.

Not here: the workload's options (workload.py), the contents of records (values.py)."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import ENOTDIR
from pathlib import Path
from random import Random
from typing import Final

from downconvert.storage import LogConfig
from downconvert.storage.disk.files import DISK
from downconvert.storage.indexes.index_builder import write_indexes
from records import FileRecords
from records.batches.builder import build
from records.batches.columns import Columns
from records.formats import V2, Codec
from records.record import Headers

from .values import Values
from .workload import MIXED, Workload

FIRST_TIMESTAMP: Final = 1_700_000_000_000  # 2023-11-14, in milliseconds: no clock is read
_GAP_LONGEST: Final = 5

Progress = Callable[[int], None]


def generate(
    workload: Workload, directory: Path, progress: Progress = lambda _: None
) -> list[Path]:
    """Writes the workload's segments, with their indexes, into an empty directory. Returns the
    paths of the logs.

    `progress` is called with the bytes of keys and values so far. FileExistsError: there are
    segments already. NotADirectoryError: a file has that name. After an error it leaves no file."""
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(ENOTDIR, "is not a directory", str(directory))
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.glob("*.log")):
        raise FileExistsError(f"{directory} holds segments already: name an empty directory")
    random = Random(repr(("segments", workload.seed)))
    codecs = [Codec[workload.codec.upper()]] if workload.codec != MIXED else list(Codec)
    paths: list[Path] = []
    file, written, done = None, workload.segment, 0
    try:
        for columns, size in _batches(workload):
            batch = build(columns, magic=V2, codec=random.choice(codecs))
            if file is None or written + len(batch) > workload.segment:
                if file is not None:
                    file.close()
                paths.append(directory / f"{columns.offsets[0]:020}.log")
                file, written = paths[-1].open("wb"), 0
            file.write(batch)
            written += len(batch)
            done += size
            progress(done)
        if file is not None:
            file.close()
        for path in paths:
            with FileRecords.open(path) as records:
                write_indexes(records, directory, int(path.stem), DISK, LogConfig())
    except BaseException:  # Ctrl-C too: leftover files would stop the next run
        if file is not None:
            with suppress(OSError):  # the disk is still full
                file.close()
        for path in paths:
            for left in directory.glob(f"{path.stem}.*"):
                left.unlink()
        raise
    return paths


def _batches(workload: Workload) -> Iterator[tuple[Columns, int]]:
    """The records of batch after batch, and the bytes of their keys and values."""
    random = Random(repr(("records", workload.seed)))
    values = Values(Random(repr(("values", workload.seed))))
    low, high = workload.record
    done = offset = 0
    timestamp = FIRST_TIMESTAMP
    while done < workload.size:
        offsets: list[int] = []
        timestamps: list[int] = []
        keys: list[bytes | None] = []
        payloads: list[bytes | None] = []
        headers: list[Headers] = []
        filled = 0
        while filled < workload.batch and done + filled < workload.size:
            timestamp += random.getrandbits(3)
            if workload.gaps and random.random() < workload.gaps:
                offset += random.randint(1, _GAP_LONGEST)
            size = low if low == high else int(low * (high / low) ** random.random())
            key = values.key() if random.random() < workload.keys else None
            value: bytes | None
            if workload.nulls and random.random() < workload.nulls:
                value = None
            elif random.random() < workload.random:
                value = values.noise(size)
            else:
                value = values.event(size, timestamp)
            has_headers = workload.headers and random.random() < workload.headers
            offsets.append(offset)
            timestamps.append(timestamp)
            keys.append(key)
            payloads.append(value)
            headers.append(values.headers() if has_headers else ())
            filled += len(key or b"") + len(value or b"") or 1
            offset += 1
        done += filled
        columns = Columns(offsets, timestamps, keys, payloads, headers if any(headers) else ())
        yield columns, filled
