"""LeaveGroup: one member in old versions, several in new ones, each with its own error."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker

BATCHED = 3  # the first version of several members


def joined(broker: Broker, group: str) -> str:
    """The id of a group's only member."""
    body = Message(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"")],
    )
    member: str = ask(broker, ApiKey.JoinGroup, 3, body, now=100.0).member_id
    return member


def members_of(broker: Broker, group: str) -> list[str]:
    body = Message(groups=[group])
    (found,) = ask(broker, ApiKey.DescribeGroups, 4, body, now=100.0).groups
    return [one.member_id for one in found.members]


@pytest.mark.parametrize("version", range(BATCHED))
def test_the_error_of_one_member_is_that_of_the_response(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        member = joined(broker, "g")
        for leaving, code in (("other", ErrorCode.UNKNOWN_MEMBER_ID), (member, ErrorCode.NONE)):
            body = Message(group_id="g", member_id=leaving)
            assert ask(broker, ApiKey.LeaveGroup, version, body, now=100.0).error_code == code
        assert members_of(broker, "g") == []


@pytest.mark.parametrize("version", range(BATCHED, 6))
def test_each_of_several_members_has_its_own_error(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        member = joined(broker, "g")
        leaving = [
            Message(member_id=one, group_instance_id=None, reason=None) for one in ("x", member)
        ]
        body = Message(group_id="g", members=leaving)
        response = ask(broker, ApiKey.LeaveGroup, version, body, now=100.0)
        assert response.error_code == ErrorCode.NONE
        assert {one.member_id: one.error_code for one in response.members} == {
            "x": ErrorCode.UNKNOWN_MEMBER_ID,
            member: ErrorCode.NONE,
        }
        assert members_of(broker, "g") == []
