"""Records of `__consumer_offsets`, byte for byte as Kafka defines them.

The bytes are from its definitions of the keys and values; that a broker and Kafka read what is
written here is shown in tests/downconvert/broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.internal_topics.cursor import UnreadableRecordError
from downconvert.internal_topics.group_records import (
    GROUP_NAME,
    LATER_KEYS,
    NO_EPOCH,
    NO_TIME,
    Committed,
    RecordKey,
    StoredGroup,
    StoredMember,
    read_committed,
    read_group,
    read_group_key,
    read_key,
    write_committed,
    write_group,
    write_key,
)

OFFSET = "0000000000000007"
TIMES = "00000000000003e8"
TOPIC_ID = bytes(range(16))
COMMITTED = {
    0: (f"0000 {OFFSET} 0002 6d64 {TIMES}", Committed(7, NO_EPOCH, "md", 1000)),
    1: (f"0001 {OFFSET} 0002 6d64 {TIMES} 00000000000007d0", Committed(7, -1, "md", 1000, 2000)),
    2: (f"0002 {OFFSET} 0002 6d64 {TIMES}", Committed(7, NO_EPOCH, "md", 1000)),
    3: (f"0003 {OFFSET} 00000005 0002 6d64 {TIMES}", Committed(7, 5, "md", 1000)),
    4: (
        f"0004 {OFFSET} 00000005 03 6d64 {TIMES} 01 00 10 {TOPIC_ID.hex()}",
        Committed(7, 5, "md", 1000, NO_TIME, TOPIC_ID),
    ),
}
MEMBER = StoredMember("m", "i", "c", "/h", 10, 20, b"sub", b"as")
GROUP = StoredGroup("consumer", 3, "range", "m", 1000, (MEMBER,))
HEAD = "0008 636f6e73756d6572 00000003 0005 72616e6765 0001 6d"
FULL = "0003 737562 00000002 6173"
GROUPS = {
    0: f"0000 {HEAD} 00000001 0001 6d 0001 63 0002 2f68 0000000a 00000003 737562 00000002 6173",
    1: f"0001 {HEAD} 00000001 0001 6d 0001 63 0002 2f68 00000014 0000000a 00000003 737562 "
    "00000002 6173",
    2: f"0002 {HEAD} {TIMES} 00000001 0001 6d 0001 63 0002 2f68 00000014 0000000a 00000003 737562 "
    "00000002 6173",
    3: f"0003 {HEAD} {TIMES} 00000001 0001 6d 0001 69 0001 63 0002 2f68 00000014 0000000a "
    "00000003 737562 00000002 6173",
    4: f"0004 09 636f6e73756d6572 00000003 06 72616e6765 02 6d {TIMES} 02 02 6d 02 69 02 63 "
    "03 2f68 00000014 0000000a 04 737562 03 6173 00 00",
}


@pytest.mark.parametrize("version", COMMITTED)
def test_every_version_of_an_offset_is_read(version: int) -> None:
    data, expected = COMMITTED[version]
    assert read_committed(bytes.fromhex(data)) == expected


@pytest.mark.parametrize("version", GROUPS)
def test_every_version_of_a_group_is_read(version: int) -> None:
    found = read_group(bytes.fromhex(GROUPS[version]))
    member = found.members[0]
    assert (found.protocol_type, found.generation, found.protocol) == ("consumer", 3, "range")
    assert found.time == (1000 if version >= 2 else NO_TIME)
    assert member.instance_id == ("i" if version >= 3 else None)
    assert member.rebalance_timeout_ms == (20 if version >= 1 else 10)
    assert (member.subscription, member.assignment) == (b"sub", b"as")


def test_written_records_are_read_back() -> None:
    assert read_group(write_group(GROUP)) == GROUP
    assert write_group(GROUP) == bytes.fromhex(GROUPS[3])
    for version in (1, 3):
        data, committed = COMMITTED[version]
        assert write_committed(committed) == bytes.fromhex(data)
    for key in (RecordKey("g"), RecordKey("g", ("t", 1))):
        assert read_key(write_key(key)) == key


def test_groups_of_later_protocols_are_named() -> None:
    assert read_group_key(write_key(RecordKey("g"))) == ("g", GROUP_NAME)
    assert read_group_key(bytes.fromhex("0003 0001 67")) == ("g", "ConsumerGroupMetadata")
    assert read_group_key(bytes.fromhex("000a 0001 67 0001 6d")) == (
        "g",
        "ShareGroupMemberMetadata",
    )
    assert read_group_key(write_key(RecordKey("g", ("t", 1)))) is None
    assert read_group_key(bytes.fromhex("7fff")) is None
    assert sorted(LATER_KEYS) == list(range(3, 24))


@pytest.mark.parametrize("data", [*(text for text, _ in COMMITTED.values()), *GROUPS.values()])
def test_a_value_that_is_cut_off_is_damaged(data: str) -> None:
    whole = bytes.fromhex(data)
    read = read_group if data in GROUPS.values() else read_committed
    for size in range(len(whole)):
        with pytest.raises(UnreadableRecordError):
            read(whole[:size])


@given(data=st.binary(max_size=80), version=st.integers(-1, 6))
def test_any_bytes_are_read_or_refused(data: bytes, version: int) -> None:
    for head in (b"", version.to_bytes(2, "big", signed=True)):
        for read in (read_key, read_group_key, read_committed, read_group):
            try:
                found = read(head + data)
            except UnreadableRecordError:
                continue
            assert found is None or isinstance(found, (RecordKey, Committed, StoredGroup, tuple))


def test_records_are_byte_for_byte_as_kafka_writes_them() -> None:
    key = RecordKey("g", ("t", 1))
    assert write_key(key) == bytes.fromhex("0001 0001 67 0001 74 00000001")
    assert read_key(write_key(key)) == key
    assert read_key(b"\0\0" + write_key(key)[2:]) == key  # as 0.8.2 wrote them
    committed = Committed(7, 3, "m", 1000)
    written = bytes.fromhex("0003 0000000000000007 00000003 0001 6d 00000000000003e8")
    assert write_committed(committed) == written
    assert read_committed(written) == committed


@pytest.mark.parametrize(
    "value",
    [
        "0000 0000000000000007 0001 6d 00000000000003e8",
        "0001 0000000000000007 0001 6d 00000000000003e8 ffffffffffffffff",
        "0002 0000000000000007 0001 6d 00000000000003e8",
        "0003 0000000000000007 ffffffff 0001 6d 00000000000003e8",
        "0004 0000000000000007 ffffffff 02 6d 00000000000003e8 00",
    ],
)
def test_offsets_of_every_version_are_read(value: str) -> None:
    assert read_committed(bytes.fromhex(value)) == Committed(7, -1, "m", 1000)
