"""`import downconvert` is cheap, and harmless: a broker that embeds it has its own of much."""

import subprocess
import sys
from typing import Final

import pytest

import downconvert

# None of these belongs to a library of bytes. `threading` does: codecs' contexts are a thread's.
FOREIGN: Final = (
    "asyncio click email http importlib.metadata kafka logging matplotlib multiprocessing numpy "
    "pandas prometheus_client pyarrow pyspark rich select selectors simulator socket ssl "
    "subprocess urllib downconvert.broker downconvert.cli downconvert.gateway downconvert.spark "
    "downconvert.storage"
)


def loaded(code: str) -> set[str]:
    """The modules that a new interpreter loads for it."""
    code = f"import sys; before = set(sys.modules); {code}; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_pulls_in_no_socket_no_command_line_and_no_spark() -> None:
    found = loaded("from downconvert import *")
    assert "downconvert.conversion.lazy" in found
    assert found & set(FOREIGN.split()) == set()


def test_importing_stays_cheap() -> None:
    """Counted, as time depends on the machine: each module takes a fraction of a millisecond, and a
    user shall see less than 60 in all."""
    assert len(loaded("from downconvert import *")) < 160


def test_every_public_name_is_there() -> None:
    for name in downconvert.__all__:
        assert getattr(downconvert, name).__name__ == name
    assert set(downconvert.__all__) <= set(dir(downconvert))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        downconvert.nothing  # noqa: B018


def test_sparks_format_is_registered_by_a_package_that_loads_no_spark() -> None:
    found = loaded("from downconvert.spark import register")
    assert found & set(FOREIGN.split()) == {"downconvert.spark"}
