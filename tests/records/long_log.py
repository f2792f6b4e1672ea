"""A log of many batches in a file, followed by a batch that needs a decision."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from records.formats import V1
from records.kernel import Outcome

from .examples import EVERY_CODEC, batch, damaged, message, record

CHUNK = 1024
EVERYTHING = 2**40
BATCHES = [
    batch(
        *(record(delta, b"key", b"value %d " % delta * 7) for delta in range(12)),
        base_offset=12 * index,
    )
    for index in range(200)
]
LOG = b"".join(BATCHES)  # more than a pipe or a socket holds
SHORT_LOG = b"".join(BATCHES[:12])  # a few chunks


@cache
def converted(kernel: ModuleType, log: bytes) -> bytes:
    target = bytearray(4 * len(log) + 1000)
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    _, produced, _ = transcoder.transcode(log, 0, len(log), len(log), target, 0, len(target))
    return bytes(target[:produced])


@contextmanager
def opened(path: Path, log: bytes, *, mapped: bool = False) -> Iterator[Any]:
    """A source: a descriptor, or the bytes."""
    if mapped:
        yield log
        return
    path.write_bytes(log)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


COMPRESSED = batch(compressed=b"anything", attributes=1, records_count=1)
DECISIONS = {
    "a compressed batch": (COMPRESSED, Outcome.BATCH, 0),
    "damage": (damaged(batch(record(0)), records_count=-1), Outcome.DAMAGE, 0),
    "a torn tail": (batch(record(0))[:-1], Outcome.END, 0),
    "a large record": (batch(record(0, None, bytes(9 * CHUNK))), Outcome.SOURCE, 61),
    "a large message": (message(0, 0, None, bytes(9 * CHUNK)), Outcome.SOURCE, 0),
    "one that grows": (
        batch(*(record(delta, None, None) for delta in range(900))),
        Outcome.END,
        None,
    ),
}
