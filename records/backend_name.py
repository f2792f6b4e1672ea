"""The name of the chosen backend, for code that must not load a kernel.

Not here: the kernel itself (backend.py)."""

import os
from typing import Final

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
