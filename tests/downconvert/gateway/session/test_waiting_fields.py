"""The fields from which it is read how long a broker may wait."""

from typing import Any

import pytest

from downconvert.gateway.session.headers import parse
from downconvert.gateway.session.waiting import LONGEST, UNREAD, Waits, timeout_of_produce
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame

LONG = 7_000_000  # milliseconds
TIMED: dict[ApiKey, tuple[int, int, dict[str, Any]]] = {  # two versions, the later one flexible
    ApiKey.CreateTopics: (4, 5, {"topics": []}),
    ApiKey.DeleteTopics: (3, 4, {"topic_names": ["t"]}),
    ApiKey.DeleteRecords: (1, 2, {"topics": []}),
    ApiKey.CreatePartitions: (1, 2, {"topics": []}),
    ApiKey.Produce: (3, 9, {"acks": -1, "topic_data": [], "transactional_id": None}),
}


def of_frame(waits: Waits, api: ApiKey, version: int, body: Message) -> float:
    data = memoryview(frame(api, version, body))
    return waits.of_frame(parse(data), data)


@pytest.mark.parametrize("api", TIMED)
@pytest.mark.parametrize(("claimed", "seconds"), [(4321, 4.321), (-1, 0), (LONG, LONGEST), (0, 0)])
def test_each_request_with_a_timeout_lets_the_broker_wait_for_it(
    api: ApiKey, claimed: int, seconds: float
) -> None:
    *versions, fields = TIMED[api]
    body = Message(timeout_ms=claimed, **fields)
    for version in versions:
        assert of_frame(Waits(), api, version, body) == seconds
    assert Waits().of_body(api, body) == seconds


@pytest.mark.parametrize("version", [0, 1, 5, 6, 9])
@pytest.mark.parametrize(("session", "rebalance"), [(9000, 4000), (3000, 8000)])
def test_a_member_waits_for_the_longer_of_its_timeouts(
    version: int, session: int, rebalance: int
) -> None:
    body = Message(
        group_id="g" * 130,
        session_timeout_ms=session,
        rebalance_timeout_ms=rebalance,
        protocols=[],
    )
    longer = (max(session, rebalance) if version else session) / 1000
    waits = Waits()
    assert waits.of_body(ApiKey.SyncGroup, Message(group_id="g")) == 0
    assert of_frame(waits, ApiKey.JoinGroup, version, body) == longer
    assert of_frame(waits, ApiKey.Heartbeat, 0, Message(group_id="g")) == 0
    assert of_frame(waits, ApiKey.SyncGroup, 0, Message(assignments=[])) == longer
    assert waits.of_body(ApiKey.SyncGroup, Message(group_id="g")) == longer
    shorter = Message(group_id="g", session_timeout_ms=1000, protocols=[])
    assert waits.of_body(ApiKey.JoinGroup, shorter) == 1
    assert waits.of_body(ApiKey.SyncGroup, Message(group_id="g")) == 1


@pytest.mark.parametrize("version", [0, 14, 15, 16, 17])
def test_a_fetch_is_read_with_and_without_a_replica_id(version: int) -> None:
    body = Message(replica_id=5, max_wait_ms=1234, min_bytes=9, topics=[])
    assert of_frame(Waits(), ApiKey.Fetch, version, body) == 1.234


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 12])
@pytest.mark.parametrize("transaction", [None, "", "t" * 200])
def test_a_produce_is_read_behind_its_transactional_id(
    version: int, transaction: str | None
) -> None:
    body = Message(transactional_id=transaction, acks=-1, timeout_ms=4321, topic_data=[])
    data = memoryview(frame(ApiKey.Produce, version, body))
    start = parse(data).size
    assert timeout_of_produce(data[start:], version) == 4321
    assert of_frame(Waits(), ApiKey.Produce, version, body) == 4.321
    with pytest.raises(BadRequestError):
        timeout_of_produce(data[start : start + 2], version)


@pytest.mark.parametrize("api", [ApiKey.Fetch, ApiKey.Produce, ApiKey.JoinGroup])
def test_a_request_that_cannot_be_read_is_waited_for_as_one_that_may_wait(api: ApiKey) -> None:
    start = api.to_bytes(2) + bytes.fromhex("0002 00000007 ffff")
    for rest in (b"", b"\0", b"\x7f\xff" + bytes(9)):
        data = memoryview(start + rest)
        if api is not ApiKey.JoinGroup and len(rest) > 8:
            continue  # those have their fields
        assert Waits().of_frame(parse(data), data) == UNREAD


def test_an_unknown_api_may_wait() -> None:
    data = memoryview(bytes.fromhex("002d 0000 00000007 ffff"))
    assert Waits().of_frame(parse(data), data) == UNREAD
