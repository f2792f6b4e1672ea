"""Fixtures for the tests of the conversion of segments."""

from pathlib import Path

import pytest

from records import Codec
from records.formats import V2
from tests.downconvert.storage.logs import batch, segment


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A partition's directory with a segment of v0, v1 and v2."""
    old = [batch(n, magic=n % 2) for n in range(40)]
    new = batch(40, 41, 42, magic=V2, codec=Codec.GZIP)
    return segment(tmp_path / "topic-0", 0, *old, new).path().parent
