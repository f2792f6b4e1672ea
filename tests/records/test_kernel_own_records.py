"""Records that the caller converts itself: their heads, and how they count."""

from types import ModuleType

import pytest

from records.formats import BATCH_HEADER_SIZE, V0, V1
from records.kernel import UNKNOWN, Outcome
from records.varint import varint

from .examples import EVERY_CODEC, GOOD, batch, message, record
from .kernels import each_kernel


@each_kernel
def test_the_head_of_a_record_is_known_before_its_body(kernel: ModuleType) -> None:
    large = record(3, b"k" * 5000, b"v" * 5000, timestamp_delta=7)
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    transcoder.enter_batch(batch(large, base_offset=10), 0)
    before_key = 8  # size 3, attributes, timestamp, offset, key size 2
    for end in range(before_key):
        assert transcoder.record_head(large, 0, end, UNKNOWN) is None
        assert transcoder.damage is None
    head = (13, 1007, len(large), before_key, 5000)
    for end in range(before_key, before_key + 100):
        assert transcoder.record_head(large, 0, end, UNKNOWN) == head


@each_kernel
@pytest.mark.parametrize("size", [-1, -2, -(2**31)])
def test_any_negative_size_of_a_key_in_a_head_is_null(kernel: ModuleType, size: int) -> None:
    body = bytes(3) + varint(size) + varint(1) + b"v" + varint(0)
    data = varint(len(body)) + body
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    transcoder.enter_batch(batch(data, base_offset=10), 0)
    head = transcoder.record_head(data, 0, len(data), UNKNOWN)
    assert head is not None
    assert (head[0], head[2], head[4]) == (10, len(data), -1)


@each_kernel
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (record(0, timestamp_delta=-1002), "negative timestamp"),
        (b"\x01", "negative record size"),
        (b"\x08\x00\x00\x00\x04k", "key runs past its record"),
        (b"\x02\x00\x00", "record ends before its fields"),
    ],
)
def test_the_available_part_of_a_head_is_checked(
    kernel: ModuleType, data: bytes, reason: str
) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    transcoder.enter_batch(GOOD, 0)
    assert transcoder.record_head(b"??" + data, 2, 2 + len(data), UNKNOWN) is None
    assert transcoder.damage == (reason, 2)


@each_kernel
@pytest.mark.parametrize(("to_magic", "overhead"), [(V0, 14), (V1, 22)])
def test_a_record_is_at_most_as_large_as_a_message_may_be(
    kernel: ModuleType, to_magic: int, overhead: int
) -> None:
    def head(key_size: int) -> bytes:
        return varint(key_size + 8) + b"\0\0\0" + varint(key_size)

    transcoder = kernel.Transcoder(to_magic, 0, EVERY_CODEC, False)
    transcoder.enter_batch(GOOD, 0)
    most = 2**31 - 1 - overhead
    assert transcoder.record_head(head(most), 0, 13, UNKNOWN) is not None
    assert transcoder.record_head(head(most + 1), 0, 13, UNKNOWN) is None
    assert transcoder.damage == ("record is too large for a message", 0)


@each_kernel
def test_records_converted_by_the_caller_count_like_the_kernels(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    source, at = GOOD, BATCH_HEADER_SIZE
    left = len(source) - at
    assert transcoder.measure(source, 0, at, len(source), 100) == (at, 0, Outcome.SOURCE)
    transcoder.record_converted(len(record(0)), 0, 1000, 36)
    assert transcoder.in_batch
    assert transcoder.last_offset == 0
    at, left = at + len(record(0)), left - len(record(0))
    assert transcoder.measure(source, at, len(source), left, 100) == (left, 36, Outcome.END)
    assert transcoder.totals == (2, 1, len(GOOD) + 72, 0)


@each_kernel
def test_records_dropped_by_the_caller_do_not_count(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 1, EVERY_CODEC, False)
    transcoder.enter_batch(GOOD, 0, True)
    transcoder.record_converted(len(record(0)), 0, 1000, 0)
    assert transcoder.totals == (0, 0, 0, 0)
    assert transcoder.wrapper == (0, -1, -1, -1)
    assert transcoder.last_offset == -1


@each_kernel
def test_entries_that_the_caller_converts_are_part_of_the_wrapper(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    transcoder.enter_entries(V1, 10, None, True)
    transcoder.record_converted(5000, 13, 77, 5000)
    data = message(V1, 4)
    transcoder.measure(data, 0, len(data), len(data), 100)
    assert transcoder.wrapper == (2, 13, 14, 1000)
    assert transcoder.totals == (2, 1, 5000 + len(data), 0)


@each_kernel
@pytest.mark.parametrize("first_offset", [10, 11])
@pytest.mark.parametrize("timestamp_delta", [-1001, -1002])
def test_a_record_below_the_first_offset_need_not_become_a_message(
    kernel: ModuleType, first_offset: int, timestamp_delta: int
) -> None:
    data = record(0, timestamp_delta=timestamp_delta)
    transcoder = kernel.Transcoder(V1, first_offset, EVERY_CODEC, False)
    transcoder.enter_batch(batch(data, base_offset=10), 0)
    head = transcoder.record_head(data, 0, len(data), UNKNOWN)
    if first_offset > 10 or timestamp_delta == -1001:
        assert head is not None
        assert head[:3] == (10, 1000 + timestamp_delta, len(data))
    else:
        assert (head, transcoder.damage) == (None, ("negative timestamp", 0))


@each_kernel
@pytest.mark.parametrize("bytes_after", [0, 1])
def test_no_head_follows_the_last_record_of_a_batch(kernel: ModuleType, bytes_after: int) -> None:
    log = batch(record(0) + bytes(bytes_after), records_count=1) + GOOD
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    at, _, outcome = transcoder.measure(log, 0, len(log), len(log), 1)
    assert (at, outcome) == (BATCH_HEADER_SIZE, Outcome.TARGET)
    transcoder.record_converted(len(record(0)), 0, 1000, 36)
    at += len(record(0))
    assert transcoder.record_head(log, at, len(log), len(log) - at) is None
    reason = transcoder.damage and transcoder.damage[0]
    assert reason == ("bytes left after the last record" if bytes_after else None)
