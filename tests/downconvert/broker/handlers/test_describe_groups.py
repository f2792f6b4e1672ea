"""DescribeGroups and ListGroups: what is said of a group in each of its states.

Not here: the rights of the client (../test_api_differential.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.access.operations import NOT_ASKED
from downconvert.broker import Broker, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, begin, response_of
from tests.downconvert.broker.writable import writable_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", group_initial_rebalance_delay_ms=0) as broker:
        yield broker


def joined(broker: Broker) -> Message:
    body = Message(
        group_id="g",
        group_instance_id="static",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="connect",
        protocols=[Message(name="sessioned", metadata=b"meta")],
    )
    return response_of(begin(broker, ApiKey.JoinGroup, 5, body))


def sync(broker: Broker, member: Message) -> None:
    body = Message(
        group_id="g",
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id="static",
        assignments=[Message(member_id=member.member_id, assignment=b"mine")],
    )
    assert not ask(broker, ApiKey.SyncGroup, 3, body).error_code


def described(broker: Broker, version: int = 5) -> Message:
    body = Message(groups=["g"], include_authorized_operations=False)
    found: list[Message] = ask(broker, ApiKey.DescribeGroups, version, body).groups
    return found[0]


def listed(broker: Broker, version: int = 5, **filters: list[str]) -> list[tuple[str, str, str]]:
    body = Message(states_filter=[], types_filter=[])
    body.__dict__.update(filters)
    groups = ask(broker, ApiKey.ListGroups, version, body).groups
    return [(one.group_id, one.protocol_type, one.group_state) for one in groups]


def test_a_stable_group_shows_its_protocol_and_its_members(broker: Broker) -> None:
    member = joined(broker)
    sync(broker, member)
    found = described(broker)
    assert (found.error_code, found.group_id, found.group_state) == (0, "g", "Stable")
    assert (found.protocol_type, found.protocol_data) == ("connect", "sessioned")
    (one,) = found.members
    assert (one.member_id, one.group_instance_id) == (member.member_id, "static")
    assert (one.client_id, one.client_host) == ("test", "/127.0.0.1")
    assert (bytes(one.member_metadata), bytes(one.member_assignment)) == (b"meta", b"mine")
    assert listed(broker) == [("g", "connect", "Stable")]


def test_a_group_that_is_not_stable_shows_its_members_without_metadata(broker: Broker) -> None:
    member = joined(broker)
    found = described(broker)
    assert (found.group_state, found.protocol_type) == ("CompletingRebalance", "connect")
    assert found.protocol_data == ""
    (one,) = found.members
    assert one.member_id == member.member_id
    assert (bytes(one.member_metadata), bytes(one.member_assignment)) == (b"", b"")


def test_a_group_that_only_has_offsets_has_no_protocol(broker: Broker) -> None:
    partition = Message(partition_index=0, committed_offset=1)
    body = Message(group_id="g", topics=[Message(name="t", partitions=[partition])])
    ask(broker, ApiKey.OffsetCommit, 2, body, now=1.0)
    found = described(broker)
    assert (found.group_state, found.protocol_type, found.members) == ("Empty", "", [])
    assert listed(broker) == [("g", "", "Empty")]


@pytest.mark.parametrize("version", [5, 6])
def test_a_group_that_is_not_there_is_dead(broker: Broker, version: int) -> None:
    found = described(broker, version)
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert (found.error_code, found.group_state) == (expected, "Dead")
    assert listed(broker) == []


def test_groups_are_listed_by_state_and_by_type(broker: Broker) -> None:
    joined(broker)
    here = [("g", "connect", "CompletingRebalance")]
    assert listed(broker, states_filter=["completingREBALANCE", "Dead"]) == here
    assert listed(broker, states_filter=["Stable"]) == []
    assert listed(broker, types_filter=["CLASSIC"]) == here
    assert listed(broker, types_filter=["consumer"]) == []
    assert listed(broker, states_filter=["Stable"], types_filter=["classic"]) == []


@pytest.mark.parametrize(("version", "code"), [(5, 0), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_operations_of_a_group_that_is_missing_are_listed_only_if_that_is_no_error(
    broker: Broker, version: int, code: int
) -> None:
    body = Message(groups=["none"], include_authorized_operations=True)
    (found,) = ask(broker, ApiKey.DescribeGroups, version, body).groups
    assert (found.error_code, found.group_state) == (code, "Dead")
    assert (found.authorized_operations == NOT_ASKED) is bool(code)
