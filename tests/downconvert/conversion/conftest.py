"""Everything here holds for records that are held in memory and for records that are read.

Records in memory are converted where they lie; those of a file are read into windows, which is
another way through the same conversion. So every module's tests run twice.

Small logs are measured whole by default. Here they are predicted as large ones are, so that small
ones can show it, but for tests that ask for `whole`."""

from collections.abc import Iterator

import pytest

from downconvert.conversion import prediction
from records import MemoryRecords


@pytest.fixture(scope="module", params=["held", "read"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "read":
            patch.setattr(MemoryRecords, "view", None)
        yield request.param


@pytest.fixture(autouse=True)
def predicted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "whole" not in request.fixturenames:
        monkeypatch.setattr(prediction, "SMALL", 0)


@pytest.fixture
def whole() -> None:
    """Small logs are measured whole, as they are by default."""
