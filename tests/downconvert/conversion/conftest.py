"""Everything here holds for records that are held in memory and for records that are read.

Records in memory are converted where they lie; those of a file are read into windows, which is
another way through the same conversion. So every module's tests run twice."""

from collections.abc import Iterator

import pytest

from records import MemoryRecords


@pytest.fixture(scope="module", params=["held", "read"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "read":
            patch.setattr(MemoryRecords, "view", None)
        yield request.param
