"""Kernels convert examples that Kafka's own classes wrote and converted."""

from types import ModuleType

import pytest

from records.formats import BATCH_HEADER_SIZE, V0, V1, V2
from records.kernel import Outcome
from records.record import ROW

from .examples import CHECKSUMS, DELETE_HORIZON, GAPS, TWO_RECORDS, batch, message, record
from .kernels import each_kernel
from .tracing import Entered, Job, trace

GAPS_CONVERTED = {
    V0: bytes.fromhex(
        "000000000000000a 00000012 57e7496e 00 00 000000026b31 000000027631"
        "000000000000000c 00000010 d5960a78 00 00 ffffffff 000000027632"
        "000000000000000d 00000010 b643ca6a 00 00 000000026b33 ffffffff"
    ),
    V1: bytes.fromhex(
        "000000000000000a 0000001a f7175541 01 00 0000000000000064 000000026b31 000000027631"
        "000000000000000c 00000018 e57256a6 01 00 0000000000000065 ffffffff 000000027632"
        "000000000000000d 00000018 6e125cf7 01 00 0000000000000063 000000026b33 ffffffff"
    ),
}
# Offsets 10 and 11 at the append time 555.
APPENDED = batch(
    record(0, b"k1", b"v1", timestamp_delta=0),
    record(1, None, b"v2", timestamp_delta=1),
    base_offset=10,
    attributes=0x08,
    base_timestamp=100,
    max_timestamp=555,
)
APPENDED_CONVERTED = {
    V0: bytes.fromhex(
        "000000000000000a 00000012 57e7496e 00 00 000000026b31 000000027631"
        "000000000000000b 00000010 d5960a78 00 00 ffffffff 000000027632"
    ),
    V1: bytes.fromhex(
        "000000000000000a 0000001a a976dc04 01 08 000000000000022b 000000026b31 000000027631"
        "000000000000000b 00000018 84d6e755 01 08 000000000000022b ffffffff 000000027632"
    ),
}
# Offsets 12, 15 and 19 of a batch that begins at 10, as they are when it has been decompressed.
COMPACTED = [
    record(2, b"k1", b"v1", timestamp_delta=0),
    record(5, b"k2", b"v2", timestamp_delta=200),
    record(9, b"k3", b"v3", timestamp_delta=100),
]
COMPACTED_HEADER = batch(*COMPACTED, base_offset=10, attributes=0x01, base_timestamp=100)
COMPACTED_CONVERTED = {
    V0: bytes.fromhex(
        "000000000000000c 00000012 57e7496e 00 00 000000026b31 000000027631"
        "000000000000000f 00000012 ff060249 00 00 000000026b32 000000027632"
        "0000000000000013 00000012 2e76396b 00 00 000000026b33 000000027633"
    ),
    V1: bytes.fromhex(
        "0000000000000000 0000001a f7175541 01 00 0000000000000064 000000026b31 000000027631"
        "0000000000000003 0000001a 2577bdd6 01 00 000000000000012c 000000026b32 000000027632"
        "0000000000000007 0000001a 0728f25d 01 00 00000000000000c8 000000026b33 000000027633"
    ),
}

each_format = pytest.mark.parametrize("to_magic", [V0, V1])


def converted(kernel: ModuleType, data: bytes, job: Job) -> bytes:
    found = trace(kernel.Transcoder, job, data)
    assert found.outcome == Outcome.END
    return bytes(found.output)


@each_kernel
@each_format
def test_offsets_timestamps_and_nulls_are_kept_and_headers_are_dropped(
    kernel: ModuleType, to_magic: int
) -> None:
    found = trace(kernel.Transcoder, Job(to_magic=to_magic), GAPS)
    assert found.output == GAPS_CONVERTED[to_magic]
    totals = found.state[0]
    assert totals == (3, 1, len(GAPS) + len(GAPS_CONVERTED[to_magic]), 0)


@each_kernel
@each_format
def test_the_first_offset_cuts_an_uncompressed_batch(kernel: ModuleType, to_magic: int) -> None:
    first_message_size = {V0: 30, V1: 38}[to_magic]
    found = trace(kernel.Transcoder, Job(to_magic=to_magic, first_offset=12), GAPS)
    assert found.output == GAPS_CONVERTED[to_magic][first_message_size:]
    assert found.state[0][:2] == (2, 1)


@each_kernel
@each_format
def test_every_message_gets_the_log_append_time(kernel: ModuleType, to_magic: int) -> None:
    assert converted(kernel, APPENDED, Job(to_magic=to_magic)) == APPENDED_CONVERTED[to_magic]


@each_kernel
@each_format
def test_offsets_in_a_wrapper_are_relative_in_v1_and_absolute_in_v0(
    kernel: ModuleType, to_magic: int
) -> None:
    entered = Entered(COMPACTED_HEADER, wrapper=True)
    job = Job(to_magic=to_magic, first_offset=15, entered=entered)
    found = trace(kernel.Transcoder, job, b"".join(COMPACTED))
    expected = COMPACTED_CONVERTED[to_magic]
    assert found.output == expected
    _, wrapper, last_offset, _, _ = found.state
    assert wrapper == (3, 12, 19, 300)
    assert last_offset == 19


@each_kernel
def test_timestamps_are_relative_to_a_delete_horizon(kernel: ModuleType) -> None:
    rows = converted(kernel, DELETE_HORIZON, Job("columns"))
    assert [row[1] for row in ROW.iter_unpack(rows)] == [50, 150]


@each_kernel
def test_a_v1_message_becomes_one_of_v0_from_the_first_offset_on(kernel: ModuleType) -> None:
    log = message(V1, 5, timestamp=9) + message(V1, 6, timestamp=10)
    expected = "0000000000000006 00000010 1fecd70a 00 00 000000016b 0000000176"
    assert converted(kernel, log, Job(to_magic=V0, first_offset=6)) == bytes.fromhex(expected)


@each_kernel
@each_format
def test_kafkas_two_records_are_converted_as_by_kafka(kernel: ModuleType, to_magic: int) -> None:
    expected = TWO_RECORDS[to_magic, "none"]
    assert converted(kernel, TWO_RECORDS[V2, "none"], Job(to_magic=to_magic)) == expected
    assert kernel.crc32(expected, 16, len(expected) // 2) == CHECKSUMS[to_magic, "none"]


@each_kernel
@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_kafkas_two_records_are_encoded_as_by_kafka(kernel: ModuleType, magic: int) -> None:
    rows = converted(kernel, TWO_RECORDS[V2, "none"], Job("columns"))
    expected = TWO_RECORDS[magic, "none"][BATCH_HEADER_SIZE if magic == V2 else 0 :]
    base_timestamp = 283843 if magic == V2 else 0
    target = bytearray(1000)
    _, produced, outcome = kernel.encode(
        *(rows, 0, len(rows), TWO_RECORDS[V2, "none"], magic),
        *(0, base_timestamp, target, 0, len(target)),
    )
    assert outcome == Outcome.END
    assert target[:produced] == expected


@each_kernel
def test_the_check_value_of_crc_32(kernel: ModuleType) -> None:
    assert kernel.crc32(b"123456789", 0, 9) == 0xCBF43926
    assert kernel.crc32(b"123456789", 4, 9, kernel.crc32(b"1234", 0, 4)) == 0xCBF43926
