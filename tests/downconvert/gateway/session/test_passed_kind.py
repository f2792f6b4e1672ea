"""Requests of a known kind pass by what their bodies say: who asks, and how long the broker may
wait. The others go to the session."""

from typing import Any

import pytest

from downconvert.gateway.session.census import ClientKey
from downconvert.gateway.session.headers import parse
from downconvert.gateway.session.passed_kind import KINDS_MAX, PassedKinds
from downconvert.gateway.session.waiting import LONGEST, UNREAD
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.series import NAME_MAX
from tests.downconvert.broker.asking import frame

CLIENT = ClientKey("app", "lib 1.0", "10.0.0.7", "Fetch", 12)
FETCH = {"min_bytes": 1, "max_bytes": 1, "session_id": 5, "session_epoch": 2, "topics": []}


def remembered(data: bytes, kinds: PassedKinds | None = None) -> PassedKinds:
    kinds = PassedKinds() if kinds is None else kinds
    view = memoryview(data)
    kinds.remember(parse(view), view, "the api", CLIENT, "app")
    return kinds


def look(api: ApiKey, version: int, **fields: Any) -> float | str | None:
    """Seconds; None: the session must look; "never": at each request of the kind."""
    data = frame(api, version, Message(**fields))
    kinds = remembered(data)
    if not kinds:
        return "never"
    (kind,) = kinds.values()
    return kind.read_wait(memoryview(data)[parse(memoryview(data)).size :])


@pytest.mark.parametrize("version", [4, 11, 14, 15, 17])
@pytest.mark.parametrize(("replica_id", "passes"), [(-1, True), (-2, True), (0, False), (3, False)])
def test_only_fetches_of_consumers_pass(version: int, replica_id: int, passes: bool) -> None:
    state = Message(replica_id=replica_id, replica_epoch=1)
    found = look(
        ApiKey.Fetch, version, replica_id=replica_id, replica_state=state, max_wait_ms=700, **FETCH
    )
    assert found == (0.7 if passes else None)


@pytest.mark.parametrize("version", [11, 17])
@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(-1, 0), (0, 0), (1500, 1.5), (2**31 - 1, LONGEST)]
)
def test_a_broker_may_wait_as_long_as_the_request_says(
    version: int, milliseconds: int, seconds: float
) -> None:
    state = Message(replica_id=-1, replica_epoch=-1)
    fields = {"replica_id": -1, "replica_state": state, "max_wait_ms": milliseconds, **FETCH}
    assert look(ApiKey.Fetch, version, **fields) == seconds


@pytest.mark.parametrize("cut", range(1, 9))
def test_half_a_fetch_does_not_pass(cut: int) -> None:
    data = frame(ApiKey.Fetch, 11, Message(replica_id=-1, max_wait_ms=5, **FETCH))
    (kind,) = remembered(data).values()
    body = memoryview(data)[parse(memoryview(data)).size :]
    assert kind.read_wait(body[: 8 - cut]) is None
    assert kind.read_wait(body[:8]) == 0.005


@pytest.mark.parametrize("version", [3, 9, 12])
@pytest.mark.parametrize(("acks", "passes"), [(0, False), (1, True), (-1, True)])
def test_a_produce_without_a_response_does_not_pass(version: int, acks: int, passes: bool) -> None:
    found = look(ApiKey.Produce, version, acks=acks, timeout_ms=30_000, topic_data=[])
    assert found == (30 if passes else None)


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (ApiKey.JoinGroup, 5, {"protocols": []}),
        (ApiKey.SyncGroup, 3, {"assignments": []}),
        (ApiKey.CreateTopics, 4, {"topics": []}),
        (ApiKey.DeleteTopics, 3, {"topic_names": []}),
        (ApiKey.SaslHandshake, 1, {"mechanism": "PLAIN"}),
        (ApiKey.SaslAuthenticate, 1, {"auth_bytes": b""}),
    ],
)
def test_requests_that_say_more_than_their_time_are_looked_at_each_time(
    api: ApiKey, version: int, fields: dict[str, Any]
) -> None:
    assert look(api, version, **fields) == "never"


@pytest.mark.parametrize(("replica_id", "seconds"), [(-1, 0.0), (2, None)])
def test_only_a_consumers_list_of_offsets_passes(replica_id: int, seconds: float | None) -> None:
    assert look(ApiKey.ListOffsets, 3, replica_id=replica_id, topics=[]) == seconds


def test_other_requests_do_not_wait_and_unknown_ones_may() -> None:
    assert look(ApiKey.Heartbeat, 3, group_id="g", member_id="m") == 0.0
    unknown = bytes.fromhex("0044 0001 00000007 ffff")  # ConsumerGroupHeartbeat
    (kind,) = remembered(unknown).values()
    assert kind.read_wait(memoryview(b"")) == UNREAD


def test_a_connection_keeps_few_kinds() -> None:
    kinds = PassedKinds()
    for version in range(KINDS_MAX):
        remembered(frame(ApiKey.Fetch, 4 + version, Message(replica_id=-1, **FETCH)), kinds)
    assert len(kinds) == KINDS_MAX
    remembered(frame(ApiKey.Heartbeat, 3, Message(group_id="g", member_id="m")), kinds)
    assert len(kinds) == 1


@pytest.mark.parametrize(("size", "is_kept"), [(NAME_MAX - 2, True), (NAME_MAX - 1, False)])
def test_headers_of_any_size_take_bounded_memory(size: int, is_kept: bool) -> None:
    body = Message(group_id="g", member_id="m")
    start = frame(ApiKey.Heartbeat, 3, body)[:8]  # API, version, correlation id
    data = start + size.to_bytes(2) + b"x" * size
    assert bool(remembered(data)) == is_kept
