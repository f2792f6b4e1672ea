"""The kernels that a test can run on: the native one, where it has been built, and its twin."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from records import backend

FACES: Final = {"native": "records.native", "reference": "records.reference"}
NAMES: Final = ["reference", *(["native"] if find_spec("records._kernel") else [])]
KERNEL: Final = (
    "ArrowColumns",
    "Transcoder",
    "encode",
    "crc32",
    "keyed_batch",
    "make_records",
    "read_entries",
    "summarize_batch",
    "make_inner_records",
)


@cache
def _candidates(_modules: int) -> tuple[tuple[ModuleType, str], ...]:
    """Where a part of a kernel may have been imported to. Looked for again when there are more
    modules."""
    return tuple(
        (module, part)
        for module in list(sys.modules.values())
        for part in KERNEL
        if module.__name__ not in FACES.values() and hasattr(module, part)
    )


@contextmanager
def running_on(name: str) -> Iterator[None]:
    """All modules of the project that have been imported use this kernel while it lasts."""
    face = importlib.import_module(FACES[name])
    usual = {part: getattr(backend, part) for part in KERNEL}
    changed = [
        (module, part)
        for module, part in _candidates(len(sys.modules))
        if getattr(module, part) is usual[part]
    ]
    try:
        for module, part in changed:
            setattr(module, part, getattr(face, part))
        yield
    finally:
        for module, part in changed:
            setattr(module, part, usual[part])
