"""Fixtures of the tests of fetches."""

import pytest

from downconvert.broker.fetch import shared_range


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges are shared in chunks of a few batches."""
    monkeypatch.setattr(shared_range, "CHUNK_SIZE", 1000)
