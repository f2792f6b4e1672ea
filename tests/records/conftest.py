"""The native kernel, for tests that compare it with the reference."""

from types import ModuleType

import pytest

from .kernels import KERNELS, REQUIRE_NATIVE


@pytest.fixture(scope="session")
def native() -> ModuleType:
    if len(KERNELS) == 1:
        pytest.skip(f"the native kernel has not been built, and {REQUIRE_NATIVE} is not set")
    return KERNELS[1]
