"""Log directories of real brokers, unpacked once for all tests of a process."""

from pathlib import Path

import pytest

from .storage import brokers


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked directories of `brokers.py`. Not to be written to: copy what is to change."""
    path = tmp_path_factory.mktemp("real")
    brokers.unpack(path)
    return path
