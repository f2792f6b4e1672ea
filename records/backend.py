"""Which kernel runs: the native one where it has been built, else its twin in Python.

`LAZY_DOWNCONVERT_BACKEND=native` or `=reference` in the environment forces one. `NAME` says which
it is, for whoever tells people: the reference does the same, many times slower.

Not here: what a kernel does (kernel.py)."""

import os
from typing import TYPE_CHECKING, Final

ENVIRONMENT_VARIABLE: Final = "LAZY_DOWNCONVERT_BACKEND"
NATIVE: Final = "native"
REFERENCE: Final = "reference"

_NOT_BUILT: Final = (
    f"the native kernel is not there, and {ENVIRONMENT_VARIABLE}={NATIVE} asks for it: install Rust"
    " (cargo) and run `pip install .` in the project's directory, or unset the variable"
)


def _chosen() -> str:
    forced = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if forced not in ("", NATIVE, REFERENCE):
        raise ImportError(f"{ENVIRONMENT_VARIABLE} is {NATIVE} or {REFERENCE}, not {forced!r}")
    if forced == REFERENCE:
        return REFERENCE
    try:
        import records.native  # noqa: F401
    except ImportError as missing:
        if forced == NATIVE:
            raise ImportError(_NOT_BUILT) from missing
        return REFERENCE
    return NATIVE


NAME: Final = _chosen()

if TYPE_CHECKING:
    from . import kernel

    Transcoder: type[kernel.Transcoder]
    encode: kernel.Encode
    crc32: kernel.Crc32
elif NAME == NATIVE:
    from .native import Transcoder, crc32, encode
else:
    from .reference import Transcoder, crc32, encode

__all__ = ["ENVIRONMENT_VARIABLE", "NAME", "NATIVE", "REFERENCE", "Transcoder", "crc32", "encode"]
