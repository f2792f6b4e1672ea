"""Whole entries at once: how far one call reads. The reference reads none (kernel_functions.py)."""

from types import ModuleType

import pytest

from records.codecs import compress
from records.formats import V2, Codec

from .examples import batch, record
from .kernels import KERNELS, REQUIRE_NATIVE

EVERY = (-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def twin() -> ModuleType:
    if len(KERNELS) == 1:
        pytest.skip(f"the native kernel has not been built, and {REQUIRE_NATIVE} is not set")
    return KERNELS[1]


def read(kernel: ModuleType, log: bytes, size_max: int) -> set[int]:
    """How many bytes each of both functions reads."""
    columns = kernel.ArrowColumns(10_000, 2**30, True, True, True, EVERY, EVERY)
    added, is_full = columns.add_entries(log, 0, len(log), True, True, size_max)
    assert not is_full
    found, consumed = kernel.read_entries(log, 0, len(log), True, False, size_max)
    assert len(found) == len(columns)
    return {added, consumed}


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_no_entry_is_decompressed_once_the_limit_is_reached(twin: ModuleType, codec: int) -> None:
    """An entry may decompress to as much as the limit by itself."""
    body = record(0, None, b"value" * 40)
    data = compress(Codec(codec), body, magic=V2, compression_level="fast")
    entries = [
        batch(compressed=data, base_offset=offset, records_count=1, attributes=codec)
        for offset in range(6)
    ]
    size, log = len(body), b"".join(entries)
    for size_max, count in [
        *((0, 0), (1, 0), (size - 1, 0), (size, 1), (size + 1, 2)),
        *((2 * size - 1, 2), (2 * size, 2), (2 * size + 1, 3), (3 * size, 3), (3 * size + 1, 4)),
    ]:
        assert read(twin, log, size_max) == {count * len(entries[0])}
