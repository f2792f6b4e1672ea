"""Which kernel runs, chosen once at import: each case has an interpreter of its own."""

import os
import subprocess
import sys

import pytest

from records.backend import ENVIRONMENT_VARIABLE, NATIVE, REFERENCE

from .kernels import KERNELS

MISSING = "import sys; sys.modules['records._kernel'] = None; "
ASK = "from records import backend; print(backend.NAME, backend.Transcoder.__module__)"


def python(code: str, forced: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != ENVIRONMENT_VARIABLE}
    if forced is not None:
        environment[ENVIRONMENT_VARIABLE] = forced
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def chosen(code: str, forced: str | None) -> str:
    done = python(code, forced)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def error(code: str, forced: str) -> str:
    done = python(code, forced)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_the_built_kernel_runs_unless_another_is_forced() -> None:
    built = (
        "native records._kernel" if len(KERNELS) > 1 else "reference records.reference.transcoder"
    )
    assert chosen(ASK, None) == built
    assert chosen(ASK, "") == built


@pytest.mark.parametrize("before", ["", MISSING], ids=["built", "missing"])
def test_the_reference_can_be_forced(before: str) -> None:
    assert chosen(before + ASK, REFERENCE).startswith("reference records.reference")


def test_without_the_native_kernel_the_reference_runs() -> None:
    assert chosen(MISSING + ASK, None).startswith("reference records.reference")


def test_forcing_a_missing_native_kernel_explains_how_to_build_it() -> None:
    message = error(MISSING + ASK, NATIVE)
    assert message.startswith("ImportError: the native kernel is not there")
    assert "pip install ." in message


def test_a_kernel_that_does_not_exist_cannot_be_forced() -> None:
    message = error(ASK, "fastest")
    assert message == f"ImportError: {ENVIRONMENT_VARIABLE} is native or reference, not 'fastest'"
