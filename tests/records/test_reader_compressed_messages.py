"""Messages inside of a compressed v0 or v1 message."""

import gc
import gzip
import random
from typing import Any

import pytest

from records import TimestampType
from records.formats import V0, V1

from .examples import GAPS, damaged, message, wrapper
from .reading import GZIP, LOG_APPEND, ORIGIN, all_records, until_damage


def offsets(entry: bytes) -> list[int]:
    return [record.offset for record in all_records(entry)]


@pytest.mark.parametrize(
    ("magic", "offset", "inside", "found"),
    [
        (V0, 19, (12, 15, 19), [12, 15, 19]),
        (V1, 102, (0, 1, 2), [100, 101, 102]),
        (V1, 19, (0, 3, 7), [12, 15, 19]),  # gaps that compaction left
        (V1, 0, (0, 1), [0, 1]),
    ],
)
def test_offsets_are_absolute_in_a_compressed_v0_message_and_count_back_in_v1(
    magic: int, offset: int, inside: tuple[int, ...], found: list[int]
) -> None:
    inner = b"".join(message(magic, one) for one in inside)
    assert offsets(wrapper(magic, offset, inner)) == found


def test_a_compressed_v1_message_below_its_last_offset_is_damage() -> None:
    assert offsets(wrapper(V1, 1, message(V1, 0) + message(V1, 1))) == [0, 1]
    count, error = until_damage(wrapper(V1, 1, message(V1, 0) + message(V1, 2)))
    reason = "compressed message is at a lower offset than its last"
    assert (count, error.reason, error.position) == (0, reason, ORIGIN)


def test_offsets_beyond_all_offsets_wrap_as_in_java() -> None:
    inner = message(V1, 1) + message(V1, -(2**63))
    assert offsets(wrapper(V1, 2**62, inner)) == [2**62 - 2**63 + 1, 2**62]


def test_under_log_append_time_the_timestamp_is_the_compressed_messages() -> None:
    inner = message(V1, 0, timestamp=1) + message(V1, 1, timestamp=2, attributes=LOG_APPEND)
    found = all_records(wrapper(V1, 5, inner, timestamp=777, attributes=LOG_APPEND))
    assert [record.timestamp for record in found] == [777, 777]
    assert {record.timestamp_type for record in found} == {TimestampType.LOG_APPEND}


def test_under_create_time_messages_inside_have_their_own_time_and_no_type() -> None:
    inner = message(V1, 0, timestamp=1) + message(V1, 1, timestamp=2, attributes=LOG_APPEND)
    found = all_records(wrapper(V1, 5, inner, timestamp=2))
    assert [record.timestamp for record in found] == [1, 2]
    assert {record.timestamp_type for record in found} == {TimestampType.CREATE}


def test_a_v0_message_in_a_v1_one_has_no_time() -> None:
    for attributes in (0, LOG_APPEND):
        (found,) = all_records(wrapper(V1, 5, message(V0, 0), attributes=attributes))
        assert (found.offset, found.timestamp) == (5, -1)
        assert found.timestamp_type is TimestampType.NONE


def test_a_v1_message_in_a_v0_one_has_a_timestamp_without_a_type() -> None:
    (found,) = all_records(wrapper(V0, 5, message(V1, 5, timestamp=9)))
    assert (found.timestamp, found.timestamp_type) == (9, TimestampType.NONE)


@pytest.mark.parametrize("magic", [V0, V1])
def test_a_tail_cut_short_in_a_compressed_message_is_left_out(magic: int) -> None:
    inner = message(magic, 0) + message(magic, 1)
    for cut in range(1, len(message(magic, 1)) + 1):
        assert len(all_records(wrapper(magic, 1, inner[:-cut]))) == 1


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize("inner", [b"", bytes(11), message(V1, 0)[:-1]])
def test_a_compressed_message_without_a_message_is_damage(magic: int, inner: bytes) -> None:
    count, error = until_damage(wrapper(magic, 9, inner))
    reason = "compressed message holds no messages"
    assert (count, error.reason, error.position) == (0, reason, ORIGIN)


@pytest.mark.parametrize("magic", [V0, V1])
def test_a_compressed_message_with_a_key_is_read_all_the_same(magic: int) -> None:
    inner = gzip.compress(message(magic, 4))
    assert offsets(message(magic, 4, b"key", inner, attributes=GZIP)) == [4]


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (bytes(8) + b"\0\0\0\x0d" + bytes(20), "entry is smaller than a message header"),
        (GAPS, "unknown magic"),
        (wrapper(V1, 3, message(V1, 0)), "compressed message inside a compressed message"),
        (
            damaged(message(V0, 0), at=18, bytes=b"\0\0\0\x7f"),
            "key runs past its message",
        ),
    ],
)
def test_damage_inside_a_compressed_message_names_both_places(
    magic: int, inner: bytes, reason: str
) -> None:
    good = message(magic, 0)
    count, error = until_damage(GAPS + wrapper(magic, 9, good + inner))
    assert error.reason == reason
    assert (error.position, error.inside) == (ORIGIN + len(GAPS), len(good))
    assert count == (4 if magic == V0 else 3)  # v1 needs the last one before it can give the first


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"key": None, "value": None, "attributes": GZIP}, "compressed message has no value"),
        (
            {"key": None, "value": b"", "attributes": 4},
            "codec does not exist in this message format",
        ),
    ],
)
def test_an_invalid_compressed_message_is_damage(
    magic: int, entry: dict[str, Any], reason: str
) -> None:
    count, error = until_damage(message(magic, 0, **entry))
    assert (count, error.reason, error.position) == (0, reason, ORIGIN)


@pytest.mark.parametrize(("magic", "key_size_at"), [(V0, 18), (V1, 26)])
def test_sizes_beyond_a_compressed_message_are_damage(magic: int, key_size_at: int) -> None:
    good = wrapper(magic, 0, message(magic, 0))
    for at, to, reason in (
        (key_size_at, len(good), "key runs past its message"),
        (key_size_at, len(good) - key_size_at - 7, "value runs past its message"),
        (key_size_at + 4, len(good), "value runs past its message"),
    ):
        count, error = until_damage(damaged(good, at=at, bytes=to.to_bytes(4, "big")))
        assert (count, error.reason, error.position) == (0, reason, ORIGIN)


def test_messages_in_a_compressed_message_have_checksums_of_their_own() -> None:
    first, second = message(V1, 0), bytearray(message(V1, 1))
    second[-1] ^= 1
    entry = wrapper(V1, 21, first + second)
    count, error = until_damage(entry)
    assert (count, error.reason) == (1, "checksum does not match")
    assert (error.position, error.inside) == (ORIGIN, len(first))
    assert len(all_records(entry, verify=False)) == 2


@pytest.mark.parametrize("magic", [V0, V1])
def test_a_compressed_message_larger_than_a_window_is_read(magic: int) -> None:
    values = [random.Random(n).randbytes(8) * (n * 5) for n in range(1000)]
    base = 100 if magic == V0 else 0
    inner = b"".join(message(magic, base + n, b"", value) for n, value in enumerate(values))
    found = all_records(wrapper(magic, 1099, inner))
    assert [record.value for record in found] == values
    assert [record.offset for record in found] == list(range(100, 1100))


def test_an_error_keeps_no_memory_alive() -> None:
    second = bytearray(message(V1, 1))
    second[-1] ^= 1
    entry = wrapper(V1, 21, message(V1, 0) + second + message(V1, 2))
    for _ in range(100):
        assert until_damage(entry)[0] == 1
    gc.collect()
    assert len(all_records(entry, verify=False)) == 3
