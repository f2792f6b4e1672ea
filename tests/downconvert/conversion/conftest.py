"""Everything here holds for records that are held in memory and for records that are read.

Records in memory are converted where they lie; those of a file are read into windows, which is
another way through the same conversion. So every module's tests run twice.

Small logs are one answer, whatever has to be compressed again. In modules that say so such answers
end early, as large ones do: after `ENOUGH` bytes, but for tests that ask for `whole`."""

from collections.abc import Iterator

import pytest

from downconvert.conversion import plan
from records import MemoryRecords


@pytest.fixture(scope="module", params=["held", "read"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "read":
            patch.setattr(MemoryRecords, "view", None)
        yield request.param


@pytest.fixture(autouse=True)
def short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    enough = getattr(request.module, "ENOUGH", None)
    if enough is not None and "whole" not in request.fixturenames:
        monkeypatch.setattr(plan, "ENOUGH", enough)


@pytest.fixture
def whole() -> None:
    """Answers are as long as by default."""
