import crc32c as package
import pytest

from records.crc32c import crc32c


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_function_is_that_of_the_package(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == package.crc32c(b"123456789") == 0xE3069283


def test_a_checksum_continues_from_earlier_bytes() -> None:
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283
