"""The output of `downconvert --version`: the distribution, the kernel, the codecs' libraries, and
the system."""

import platform
import zlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from records.backend import NAME
from records.codecs import deflate

from .extras import DISTRIBUTION


def versions() -> Iterator[str]:
    """The lines. The first one has only the distribution and its version."""
    yield f"{DISTRIBUTION} {_version(DISTRIBUTION)}"
    yield f"kernel: {NAME}"
    codecs = {"snappy": "cramjam", "lz4": "lz4", "zstd": "zstandard"}
    named = (f"{codec} ({_named(library)})" for codec, library in codecs.items())
    yield ", ".join([f"codecs: gzip ({_gzip()})", *named])
    yield f"Python: {platform.python_version()} on {platform.system()} {platform.machine()}"


def _gzip() -> str:
    streams = "zlib" if deflate.library is zlib else _named("isal")
    return streams if deflate.native is None else f"libdeflate, {streams}"


def _named(distribution: str) -> str:
    return f"{distribution} {_version(distribution)}"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(not installed)"
