"""What the tests of the log on disk share: directories that real brokers wrote."""

from pathlib import Path

import pytest

from tests.storage import brokers


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked directories of `brokers.py`. Not to be written to: copy what is to change."""
    path = tmp_path_factory.mktemp("real")
    brokers.unpack(path)
    return path
