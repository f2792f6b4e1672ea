"""The available kernels, for tests of each of them."""

import os
from types import ModuleType
from typing import Final

import pytest

from records import reference

REQUIRE_NATIVE: Final = "LAZY_DOWNCONVERT_REQUIRE_NATIVE"
KERNELS: Final[list[ModuleType]] = [reference]

try:
    from records import native
except ImportError:
    if os.environ.get(REQUIRE_NATIVE):
        raise
else:
    KERNELS.append(native)

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
