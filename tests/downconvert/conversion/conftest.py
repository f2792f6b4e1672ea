"""All tests here run for records in memory and for records in a file.

Records in memory are converted in place. Records of a file are read into windows, which takes other
paths through the conversion. So every module's tests run twice, except those marked `RUNS_ONCE`
(ways.py).

Small logs are one response, whatever must be compressed again. In modules with `ENOUGH`, responses
end early after that many bytes, like large ones, except in tests with the fixture `whole`."""

from collections.abc import Iterator

import pytest

from downconvert.conversion import buffers, plan
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
    """Responses are as long as by default."""


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch) -> dict[int, bytearray]:
    """The buffers that conversions hold, by their identities."""
    held: dict[int, bytearray] = {}
    take, release = buffers.take, buffers.release

    def taken(size: int) -> bytearray:
        buffer = take(size)
        held[id(buffer)] = buffer
        return buffer

    def released(buffer: bytearray) -> None:
        held.pop(id(buffer), None)
        release(buffer)

    monkeypatch.setattr(buffers, "take", taken)
    monkeypatch.setattr(buffers, "release", released)
    return held
