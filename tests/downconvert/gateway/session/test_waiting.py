import pytest

from downconvert.gateway.session.headers import parse
from downconvert.gateway.session.waiting import LONGEST, UNREAD, Waits
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import frame

SESSION, REBALANCE = 10_000, 300_000


def of_frame(api: ApiKey, version: int, body: Message, waits: Waits | None = None) -> float:
    """A request that is passed on. If it is long, only its beginning is read."""
    data = memoryview(frame(api, version, body))
    return (waits or Waits()).of_frame(parse(data), data)


@pytest.mark.parametrize("version", range(4, 16))
def test_a_fetch_waits_for_records(version: int) -> None:
    body = Message(replica_id=-1, max_wait_ms=7000, min_bytes=1, topics=[])
    assert of_frame(ApiKey.Fetch, version, body) == Waits().of_body(ApiKey.Fetch, body) == 7


@pytest.mark.parametrize("version", range(10))
def test_a_member_waits_for_the_others_of_its_group(version: int) -> None:
    body = Message(
        group_id="g" * 200, session_timeout_ms=SESSION, rebalance_timeout_ms=REBALANCE, protocols=[]
    )
    waits = Waits()
    seconds = (REBALANCE if version else SESSION) / 1000
    assert of_frame(ApiKey.JoinGroup, version, body, waits) == seconds
    assert of_frame(ApiKey.SyncGroup, 0, Message(assignments=[]), waits) == seconds
    assert Waits().of_body(ApiKey.JoinGroup, body) == REBALANCE / 1000


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("transaction", [None, "t" * 300])
def test_a_produce_waits_for_replicas(version: int, transaction: str | None) -> None:
    body = Message(transactional_id=transaction, acks=-1, timeout_ms=5000, topic_data=[])
    assert of_frame(ApiKey.Produce, version, body) == 5


def test_administrators_wait_for_all_brokers() -> None:
    body = Message(topic_names=["t"], timeout_ms=4000)
    assert of_frame(ApiKey.DeleteTopics, 5, body) == 4
    assert Waits().of_body(ApiKey.DeleteTopics, body) == 4
    long = memoryview(frame(ApiKey.DeleteTopics, 5, Message(topic_names=["t" * 99], timeout_ms=4)))
    assert Waits().of_frame(parse(long), long[:50]) == UNREAD
    unknown = memoryview(bytes.fromhex("002d 0000 00000007 ffff"))  # AlterPartitionReassignments
    assert Waits().of_frame(parse(unknown), unknown) == UNREAD


def test_heartbeats_and_metadata_do_not_wait() -> None:
    assert of_frame(ApiKey.Heartbeat, 0, Message()) == 0
    assert Waits().of_body(ApiKey.Metadata, Message(topics=None)) == 0


@pytest.mark.parametrize(("claimed", "seconds"), [(-1, 0), ((1 << 31) - 1, LONGEST)])
def test_no_fetch_waits_for_ever(claimed: int, seconds: float) -> None:
    assert of_frame(ApiKey.Fetch, 4, Message(max_wait_ms=claimed, topics=[])) == seconds
