"""`downconvert --version`: the facts for a report of a defect."""

import pytest

from records.backend import NAME

from .running import Command, start


def test_the_first_line_is_the_version(command: Command) -> None:
    ran = command("--version")
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith("lazy-downconvert ")


def test_kernel_and_codecs_are_named(command: Command) -> None:
    _, kernel, codecs, python = command("--version").out.splitlines()
    assert kernel == f"kernel: {NAME}"
    for name in ("gzip (", "snappy (cramjam ", "lz4 (lz4 ", "zstd (zstandard "):
        assert name in codecs
    assert python.startswith("Python: 3.")


@pytest.mark.parametrize(("blocked", "message"), [("isal", "zlib)"), ("", "isal ")])
def test_the_library_for_gzip_is_named(blocked: str, message: str) -> None:
    out, _ = start("--version", blocked=blocked).communicate(timeout=60)
    assert message in out.split("snappy")[0]
