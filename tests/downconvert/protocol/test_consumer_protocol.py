"""Subscriptions and assignments: compared with kafka-python's, and read from hostile bytes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as Theirs

from downconvert.broker import BadRequestError
from downconvert.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from downconvert.protocol.decoder import reader

FULL = Subscription(("a", "b"), b"mine", frozenset({("a", 0), ("a", 2), ("b", 1)}), 7, "rack")
VERSIONS = range(4)


@pytest.mark.parametrize("version", VERSIONS)
def test_subscriptions_keep_what_their_version_has(version: int) -> None:
    found = read_subscription(write_subscription(FULL, version))
    assert (found.topics, found.user_data) == (FULL.topics, FULL.user_data)
    assert found.owned == (FULL.owned if version >= 1 else frozenset())
    assert found.generation == (FULL.generation if version >= 2 else -1)
    assert found.rack == (FULL.rack if version >= 3 else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_assignments_are_read_as_they_were_written(version: int) -> None:
    assignment = Assignment(FULL.owned, b"")
    assert read_assignment(write_assignment(assignment, version)) == assignment


def test_bytes_are_those_of_the_protocol() -> None:
    written = "0000 00000001 0001 61 00000002 00000000 00000002 ffffffff"
    assignment = Assignment(frozenset({("a", 2), ("a", 0)}))
    assert write_assignment(assignment, 0) == bytes.fromhex(written)
    theirs = Theirs(version=1, topics=["t"], user_data=b"x", owned_partitions=[])
    encoded = theirs.encode(version=1)
    data = encoded if encoded[:2] == b"\0\1" else b"\0\1" + encoded
    assert read_subscription(data) == Subscription(("t",), b"x")


def test_a_version_of_the_future_is_read_as_the_newest() -> None:
    data = write_subscription(FULL)
    assert read_subscription(b"\0\x63" + data[2:] + b"more") == FULL


def test_versions_of_the_future_take_no_memory() -> None:
    """A member may claim any version, and a reader is compiled and kept for each that is used."""
    data = write_subscription(FULL)
    read_subscription(data)
    known = reader.cache_info().currsize
    for version in (4, 99, 2**15 - 1):
        assert read_subscription(version.to_bytes(2) + data[2:]) == FULL
    assert reader.cache_info().currsize == known


def test_no_bytes_are_no_partitions() -> None:
    assert read_assignment(b"") == Assignment(frozenset())


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: b"\0\1" + data))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(BadRequestError):
        found = read_subscription(data)
        assert read_subscription(write_subscription(found)) == found
    with contextlib.suppress(BadRequestError):
        assert isinstance(read_assignment(data), Assignment)


def test_each_topic_is_written_once_and_in_order() -> None:
    partitions = frozenset((topic, index) for topic in ("b", "c", "a") for index in range(9))
    data = write_assignment(Assignment(partitions))
    assert [data.count(b"\0\x01" + topic) for topic in (b"a", b"b", b"c")] == [1, 1, 1]
    assert data.index(b"\0\x01a") < data.index(b"\0\x01b") < data.index(b"\0\x01c")
    assert read_assignment(data).partitions == partitions
