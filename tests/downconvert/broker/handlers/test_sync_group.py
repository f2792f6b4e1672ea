"""SyncGroup: what is refused at once is answered at once.

Not here: assignments (test_join_group.py), the other errors (../groups)."""

from pathlib import Path

import pytest

from downconvert.broker import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, begin, response_of
from tests.downconvert.broker.writable import writable_broker


def joined(protocol_type: str | None, protocol_name: str | None) -> Message:
    return Message(
        group_id="g",
        generation_id=1,
        member_id="m",
        protocol_type=protocol_type,
        protocol_name=protocol_name,
    )


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("named", [("consumer", None), (None, "range"), (None, None)])
def test_a_version_with_protocols_must_name_both(
    tmp_path: Path, version: int, named: tuple[str | None, str | None]
) -> None:
    with writable_broker(tmp_path) as broker:
        found = ask(broker, ApiKey.SyncGroup, version, joined(*named))
        expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else None
        assert found.error_code == (expected or ErrorCode.UNKNOWN_MEMBER_ID)
        assert bytes(found.assignment) == b""


@pytest.mark.parametrize("group", ["g", "other"])
def test_a_member_that_is_not_there_is_answered_at_once(tmp_path: Path, group: str) -> None:
    with writable_broker(tmp_path) as broker:
        body = Message(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[Message(name="range", metadata=b"")],
        )
        begin(broker, ApiKey.JoinGroup, 3, body)
        asked = joined("consumer", "range")
        asked.group_id = group
        exchange = begin(broker, ApiKey.SyncGroup, 5, asked)
        assert response_of(exchange).error_code == ErrorCode.UNKNOWN_MEMBER_ID
