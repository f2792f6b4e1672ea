from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig, ErrorCode, Exchange, Owner
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, begin, frame, response_of, someone

JOIN, SYNC = range(10), range(6)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(LogDir.open(tmp_path), BrokerConfig(group_initial_rebalance_delay_ms=0))


def join(broker: Broker, version: int = 3, now: float = 0.0, **fields: Any) -> Exchange:
    body = Message(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"meta")],
    )
    body.__dict__.update(fields)
    return begin(broker, ApiKey.JoinGroup, version, body, now=now)


@pytest.mark.parametrize("version", JOIN)
def test_a_single_member_becomes_the_leader(broker: Broker, version: int) -> None:
    response = response_of(join(broker, version))
    if version >= 4:
        assert (response.error_code, response.member_id[:5]) == (
            ErrorCode.MEMBER_ID_REQUIRED,
            "test-",
        )
        response = response_of(join(broker, version, member_id=response.member_id))
    assert (response.error_code, response.generation_id, response.leader) == (
        0,
        1,
        response.member_id,
    )
    assert [(one.member_id, one.metadata) for one in response.members] == [
        (response.member_id, b"meta")
    ]
    assert response.protocol_name == "range"


@pytest.mark.parametrize(
    ("over", "fields"),
    [
        (0, {"group_instance_id": "x" * 32_730}),
        (1, {"group_instance_id": "x" * 32_731}),
        (1, {"group_instance_id": "é" * 16_366}),
        (0, {"protocol_type": "x" * 32_767}),
        (0, {"protocols": [Message(name="x" * 32_767, metadata=b"")]}),
        (0, {"protocols": [Message(name=str(number), metadata=b"") for number in range(100)]}),
        (1, {"protocols": [Message(name=str(number), metadata=b"") for number in range(101)]}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_field_may_be_as_large_as_a_record_can_hold_it_and_no_larger(
    broker: Broker, over: int, fields: dict[str, Any]
) -> None:
    joined = response_of(join(broker, 9, member_id="", **fields))
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        joined = response_of(join(broker, 9, member_id=joined.member_id, **fields))
    assert joined.error_code == (ErrorCode.INVALID_REQUEST if over else ErrorCode.NONE)


@pytest.mark.parametrize("protocols", [[], [Message(name="range", metadata=b"")]])
def test_a_member_id_of_a_group_that_does_not_exist_is_unknown(
    broker: Broker, protocols: list[Message]
) -> None:
    """Whatever else is wrong with the request. Otherwise the client would not join again."""
    response = response_of(join(broker, member_id="old", protocols=protocols))
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.groups.manager.ids() == []


def test_the_first_protocol_of_a_name_counts(broker: Broker) -> None:
    protocols = [Message(name="range", metadata=one) for one in (b"first", b"second")]
    found = response_of(join(broker, protocols=[*protocols, Message(name="other", metadata=b"")]))
    assert [one.metadata for one in found.members] == [b"first"]


def test_a_rebalance_of_the_oldest_clients_takes_up_to_their_session_timeout(
    broker: Broker,
) -> None:
    """Version 0 has no other one."""
    first = join(broker, 0, now=100.0, session_timeout_ms=20_000)
    assert response_of(first).generation_id == 1
    second = join(broker, 0, now=101.0, session_timeout_ms=8_000)
    for now in (101.0, 110.0, 119.9):
        broker.tick(now)
        assert not second.is_done
    broker.tick(121.0)
    assert response_of(second).generation_id == 2


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_rebalance_of_later_clients_takes_up_to_their_rebalance_timeout(
    broker: Broker, version: int
) -> None:
    timeouts = {"session_timeout_ms": 20_000, "rebalance_timeout_ms": 5_000}
    first = join(broker, version, now=100.0, **timeouts)
    assert response_of(first).generation_id == 1
    second = join(broker, version, now=101.0, **timeouts)
    broker.tick(105.9)
    assert not second.is_done
    broker.tick(106.0)
    assert response_of(second).generation_id == 2


@pytest.mark.parametrize(("version", "name"), [(4, ""), (6, ""), (7, None), (9, None)])
def test_a_response_without_a_protocol_has_the_empty_value_of_its_version(
    broker: Broker, version: int, name: str | None
) -> None:
    response = response_of(join(broker, version))
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.protocol_name == name


@pytest.mark.parametrize(("version", "name"), [(3, ""), (6, ""), (7, None), (9, None)])
def test_a_protocol_without_a_name_is_answered_as_none(
    broker: Broker, version: int, name: str | None
) -> None:
    """As Kafka does [JoinGroupResponse]."""
    fields = {"protocols": [Message(name="", metadata=b"")], "group_instance_id": "i"}
    first = response_of(join(broker, version, **fields))
    if first.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        first = response_of(join(broker, version, **fields | {"member_id": first.member_id}))
    assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, name)


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_restarted_leader_learns_in_newer_versions_not_to_assign(
    broker: Broker, version: int
) -> None:
    before = response_of(join(broker, version, group_instance_id="i"))
    body = sync_of(before, group_instance_id="i", assignments=[])
    assert ask(broker, ApiKey.SyncGroup, 5, body).error_code == 0
    again = response_of(join(broker, version, group_instance_id="i"))
    assert (again.error_code, again.generation_id) == (0, 1)
    assert again.member_id != before.member_id
    assert again.skip_assignment is (version >= 9)
    assert again.leader == (again.member_id if version >= 9 else before.member_id)
    assert len(again.members) == (version >= 9)


@pytest.mark.parametrize("version", SYNC)
def test_the_leaders_assignment_reaches_each_member(broker: Broker, version: int) -> None:
    first = response_of(join(broker))
    waiting = join(broker)
    first = response_of(join(broker, member_id=first.member_id))
    second = response_of(waiting)
    assert {first.generation_id, second.generation_id} == {2}
    follower = begin(broker, ApiKey.SyncGroup, version, sync_of(second))
    assert not follower.is_done
    assigned = [
        Message(member_id=first.member_id, assignment=b"1"),
        Message(member_id=second.member_id, assignment=b"2"),
    ]
    led = ask(broker, ApiKey.SyncGroup, version, sync_of(first, assignments=assigned))
    assert (led.error_code, led.assignment) == (0, b"1")
    assert response_of(follower).assignment == b"2"


def sync_of(joined: Message, **fields: Any) -> Message:
    return Message(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        **fields,
    )


def test_a_defect_in_one_member_s_response_is_not_another_s(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = response_of(join(broker))
    waiting = join(broker)
    reply = Exchange.reply

    def replied(exchange: Exchange, body: Message) -> None:
        if body.member_id != first.member_id:
            raise ValueError("a defect")
        reply(exchange, body)

    monkeypatch.setattr(Exchange, "reply", replied)
    again = response_of(join(broker, member_id=first.member_id))
    assert (again.error_code, again.generation_id) == (0, 2)
    assert (waiting.close_after_reply, type(waiting.defect)) == (True, ValueError)
    assert len(caplog.records) == 1


def test_a_member_is_answered_by_its_own_thread(broker: Broker) -> None:
    owner = Owner()
    first = response_of(join(broker))
    body = Message(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"meta")],
    )
    waiting = begin(broker, ApiKey.JoinGroup, 3, body, owner=owner)
    assert response_of(join(broker, member_id=first.member_id)).generation_id == 2
    assert not waiting.is_done
    assert broker.run_due(owner, 0.0)
    assert response_of(waiting).generation_id == 2


@pytest.mark.parametrize("api", [ApiKey.JoinGroup, ApiKey.SyncGroup])
def test_the_request_of_a_client_that_waits_is_not_kept_for_the_group(
    broker: Broker, api: ApiKey
) -> None:
    """The group keeps the member until its session ends, also if the client has gone. Its frame may
    have 100 MiB of junk."""
    first = response_of(join(broker))
    joining = join(broker)
    join(broker, member_id=first.member_id)
    second = response_of(joining)
    if api is ApiKey.JoinGroup:
        protocols = [Message(name="range", metadata=b"meta")]
        body = Message(group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=30_000)
        body.__dict__.update(protocol_type="consumer", protocols=protocols, member_id="")
    else:
        body = Message(group_id="g", generation_id=2, member_id=second.member_id)
        body.assignments = [Message(member_id="nobody", assignment=b"any")]
    data = bytearray(frame(api, 3, body) + b"junk")
    with memoryview(data) as view:
        exchange = broker.handle(someone(), view, 1.0)
        assert not exchange.is_done
    data.clear()  # BufferError: something still refers to it
