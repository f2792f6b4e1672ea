"""Every kind of damage that a kernel finds: its reason and its position.

Good records before the damage are converted first."""

from types import ModuleType

import pytest

from records.formats import BATCH_HEADER_SIZE, V0, V1
from records.kernel import Outcome
from records.varint import varint
from tests.damage import damaged, flipped, spliced

from .examples import batch, message, record
from .kernels import each_kernel
from .tracing import Entered, Job, Trace, trace

NULL, NONE, ONE = varint(-1), varint(0), varint(1)
INT32_MAX = 2**31 - 1
TOO_LONG = b"\xff\xff\xff\xff\xff\0"
TOO_LONG_64 = b"\xff\xff\xff\xff\xff" + TOO_LONG


def body(*parts: bytes) -> bytes:
    """A record of these bytes."""
    joined = b"".join(parts)
    return varint(len(joined)) + joined


def fields(*parts: bytes) -> bytes:
    """A record of offset delta 1, and then these bytes."""
    return body(b"\0\0\2", *parts)


# Damage of a record, and such records. They are the last of their batches.
RECORDS = {
    "varint is too long": [
        TOO_LONG,
        body(b"\0", TOO_LONG_64),
        body(b"\0\0", TOO_LONG),
        fields(TOO_LONG),
        fields(NULL, TOO_LONG),
        fields(NULL, NULL, TOO_LONG),
        fields(NULL, NULL, ONE, TOO_LONG),
        fields(NULL, NULL, ONE, NONE, TOO_LONG),
    ],
    "batch ends before its last record": [b"", b"\x80", b"\xff\xff\xff\xff"],
    "negative record size": [varint(-1), varint(-(2**31))],
    "record runs past its batch": [varint(1), varint(7) + bytes(6), varint(INT32_MAX) + bytes(9)],
    "record ends before its fields": [
        body(),
        body(b"\0"),
        body(b"\0\xff"),
        body(b"\0\0"),
        body(b"\0\0\xff"),
        fields(),
        fields(b"\x80"),
        fields(ONE, b"k"),
        fields(NULL, NULL),
        fields(NULL, NULL, b"\x80"),
        fields(NULL, NULL, ONE, ONE, b"h"),
    ],
    "key runs past its record": [fields(ONE), fields(varint(INT32_MAX), bytes(9))],
    "value runs past its record": [fields(NULL, ONE), fields(ONE, b"k", varint(INT32_MAX), NONE)],
    "negative header count": [fields(NULL, NULL, varint(-1)), fields(NULL, NULL, varint(-9))],
    "more headers than bytes": [
        fields(NULL, NULL, ONE),
        fields(NULL, NULL, varint(3), NONE, NULL),
        fields(NULL, NULL, varint(INT32_MAX), bytes(9)),
    ],
    "header key is null": [fields(NULL, NULL, ONE, NULL), fields(NULL, NULL, ONE, varint(-5))],
    "header key runs past its record": [fields(NULL, NULL, ONE, varint(2), b"h")],
    "header value runs past its record": [fields(NULL, NULL, ONE, ONE, b"h", ONE)],
    "bytes left after the record's fields": [fields(NULL, NULL, NONE, b"?")],
}
# Records that may not follow one of timestamp 1000 at offset 0, or become a message.
MISFITS = {
    "negative timestamp": [record(1, timestamp_delta=-1002)],
    "offset does not increase": [record(0), record(-1), record(-(2**31))],
}
# Damage of a message of v1, and such messages.
MESSAGES = {
    "message is smaller than its header": [
        spliced(message(V1, 1, None, None), 8, b"\0\0\0\x15", drop=4)[:33]
    ],
    "key runs past its message": [
        spliced(message(V1, 1), 26, b"\0\0\0\x07", drop=4),
        spliced(message(V1, 1), 26, b"\x7f\xff\xff\xff", drop=4),
    ],
    "value runs past its message": [
        spliced(message(V1, 1), 26, b"\0\0\0\x03", drop=4),
        spliced(message(V1, 1), 26, b"\0\0\0\x06", drop=4),
        spliced(message(V1, 1), 31, b"\0\0\0\x02", drop=4),
        spliced(message(V1, 1), 31, b"\x7f\xff\xff\xff", drop=4),
    ],
    "negative timestamp": [message(V1, 1, timestamp=-2), message(V1, 1, timestamp=-(2**63))],
}
# Damage of an entry of a log, and such entries.
GOOD = batch(record(0), record(1))
ENTRIES = {
    "entry is smaller than a message header": [
        damaged(GOOD, field="size", to=13),
        damaged(GOOD, field="size", to=-1),
        bytes(18),
    ],
    "unknown magic": [
        damaged(GOOD, field="magic", to=3),
        damaged(GOOD, field="magic", to=-1),
        damaged(damaged(GOOD, field="size", to=INT32_MAX), field="magic", to=3),
    ],
    "batch is smaller than its header": [damaged(GOOD, field="size", to=48)],
    "negative record count": [
        damaged(GOOD, field="records_count", to=-1),
        damaged(GOOD, field="records_count", to=-(2**31)),
    ],
    "more records than bytes": [
        damaged(GOOD, field="records_count", to=3),
        damaged(GOOD, field="records_count", to=INT32_MAX),
    ],
    **MESSAGES,
}
# Damage of an entry of a compressed message, and such entries.
INNER_ENTRIES = {
    "entry is smaller than a message header": [damaged(message(V1, 1), field="size", to=13)],
    "unknown magic": [
        damaged(message(V1, 1), field="magic", to=2),
        damaged(message(V0, 1), field="magic", to=-1),
    ],
    "compressed message inside a compressed message": [message(V0, 1, attributes=1)],
    "offset does not increase": [message(V1, 0), message(V0, -1)],
    "offset delta is too large": [message(V1, 2**31)],
    **MESSAGES,
}


def each(table: dict[str, list[bytes]]) -> pytest.MarkDecorator:
    cases = [(reason, data) for reason, found in table.items() for data in found]
    return pytest.mark.parametrize(("reason", "data"), cases)


def assert_damaged(found: Trace, reason: str, position: int, records_before: int) -> None:
    assert found.outcome == Outcome.DAMAGE
    assert found.damage == (reason, position)
    assert found.state[0][0] == records_before


@each_kernel
@each(RECORDS | MISFITS)
def test_damage_in_a_batch_of_a_log_is_found_at_its_record(
    kernel: ModuleType, reason: str, data: bytes
) -> None:
    # The count must not be more than the bytes may hold, so there is room in the first record.
    good = record(0, b"k" * 20)
    log = GOOD + batch(good, data) + GOOD
    found = trace(kernel.Transcoder, Job(first_offset=-(2**63)), log)
    assert_damaged(found, reason, len(GOOD) + BATCH_HEADER_SIZE + len(good), 3)


@each_kernel
@each(RECORDS | MISFITS)
def test_damage_in_decompressed_records_is_found_at_its_record(
    kernel: ModuleType, reason: str, data: bytes
) -> None:
    header = batch(record(0), data)
    job = Job(first_offset=-(2**63), entered=Entered(header), windows=[3])
    found = trace(kernel.Transcoder, job, record(0) + data)
    assert_damaged(found, reason, len(record(0)), 1)


@each_kernel
@each(RECORDS)
def test_columns_find_the_same_damage(kernel: ModuleType, reason: str, data: bytes) -> None:
    job = Job("columns", entered=Entered(batch(record(0), data)))
    found = trace(kernel.Transcoder, job, record(0) + data)
    assert_damaged(found, reason, len(record(0)), 0)


@each_kernel
@each(MISFITS)
def test_columns_include_records_that_cannot_become_messages(
    kernel: ModuleType, reason: str, data: bytes
) -> None:
    found = trace(kernel.Transcoder, Job("columns"), batch(record(0), data))
    assert found.outcome == Outcome.END, reason


@each_kernel
def test_an_offset_is_less_than_2_to_the_31_above_the_first_of_its_batch(
    kernel: ModuleType,
) -> None:
    first = record(-1)
    job = Job(first_offset=-5)
    far = trace(kernel.Transcoder, job, batch(first, record(2**31 - 2)))
    assert far.outcome == Outcome.END
    too_far = trace(kernel.Transcoder, job, batch(first, record(2**31 - 1)))
    position = BATCH_HEADER_SIZE + len(first)
    assert_damaged(too_far, "offset delta is too large", position, 1)


@each_kernel
def test_bytes_after_the_last_record_of_a_log_batch_are_damage(kernel: ModuleType) -> None:
    log = damaged(GOOD, field="records_count", to=1)
    found = trace(kernel.Transcoder, Job(), log)
    position = BATCH_HEADER_SIZE + len(record(0))
    assert_damaged(found, "bytes left after the last record", position, 1)


@each_kernel
def test_bytes_after_decompressed_records_are_left_to_the_caller(kernel: ModuleType) -> None:
    job = Job(entered=Entered(batch(record(0))))
    found = trace(kernel.Transcoder, job, record(0) + b"?")
    assert (found.outcome, found.reached) == (Outcome.END, len(record(0)))


@each_kernel
@each(ENTRIES)
def test_damage_of_an_entry_is_found_at_the_entry(
    kernel: ModuleType, reason: str, data: bytes
) -> None:
    log = GOOD + data + bytes(100)
    found = trace(kernel.Transcoder, Job(to_magic=V0), log)
    assert_damaged(found, reason, len(GOOD), 2)


@each_kernel
@each(INNER_ENTRIES)
def test_damage_in_a_compressed_message_is_found_at_its_entry(
    kernel: ModuleType, reason: str, data: bytes
) -> None:
    good = message(V1, 0)
    job = Job(first_offset=-(2**63), entered=Entered())
    found = trace(kernel.Transcoder, job, good + data + bytes(100))
    assert_damaged(found, reason, len(good), 1)


@each_kernel
def test_bytes_after_the_value_of_a_message_are_ignored(kernel: ModuleType) -> None:
    padded = damaged(message(V1, 1) + b"??", field="size", to=len(message(V1, 1)) - 10)
    found = trace(kernel.Transcoder, Job(to_magic=V0), padded)
    assert found.output == message(V0, 1)


@each_kernel
def test_the_kernel_does_not_compare_checksums(kernel: ModuleType) -> None:
    good = trace(kernel.Transcoder, Job(), GOOD)
    assert trace(kernel.Transcoder, Job(), flipped(GOOD, 17 * 8)).output == good.output


@each_kernel
@pytest.mark.parametrize("size", range(18))
def test_a_tail_of_up_to_17_bytes_is_no_entry(kernel: ModuleType, size: int) -> None:
    found = trace(kernel.Transcoder, Job(), GOOD + b"\xff" * size)
    assert (found.outcome, found.reached) == (Outcome.END, len(GOOD))


@each_kernel
def test_a_torn_entry_ends_a_log(kernel: ModuleType) -> None:
    for size in range(len(GOOD)):
        found = trace(kernel.Transcoder, Job(), GOOD + GOOD[:size])
        assert (found.outcome, found.reached) == (Outcome.END, len(GOOD))


@each_kernel
def test_a_torn_entry_ends_a_compressed_message(kernel: ModuleType) -> None:
    good = message(V1, 0)
    for size in range(len(good)):
        found = trace(kernel.Transcoder, Job(entered=Entered()), good + message(V1, 1)[:size])
        assert (found.outcome, found.reached) == (Outcome.END, len(good))
