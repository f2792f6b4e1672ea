"""A fetch request is derived once, and means the same to every client that sends its bytes."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, Client
from downconvert.broker.fetch.fetch_request import WAIT_MAX, FetchRequest
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records.formats import V0, V1
from tests.downconvert.broker.asking import frame, sent
from tests.downconvert.broker.fetching import broker_of, request
from tests.downconvert.storage.logs import batch


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with broker_of(tmp_path, {"events": {0: [batch(0, 1)]}}) as made:
        yield made


def derived(version: int, **fields: Any) -> FetchRequest:
    """With fields as the parser gives them: 0 for those that a version lacks."""
    body = {
        "replica_id": -1,
        "replica_state": Message(replica_id=-1, replica_epoch=-1),
        "isolation_level": 0,
        "max_bytes": 100,
        "min_bytes": 1,
        "max_wait_ms": 500,
        "topics": [],
        "session_id": 0,
        "session_epoch": -1,
    }
    return FetchRequest(version, Message(**body | fields))


def test_a_version_decides_the_newest_format() -> None:
    assert [derived(version).magic for version in (0, 1, 2, 3, 4, 17)] == [
        V0,
        V0,
        V1,
        V1,
        None,
        None,
    ]


@pytest.mark.parametrize(("version", "is_follower"), [(14, False), (15, True)])
def test_later_versions_have_the_replica_id_in_another_field(
    version: int, is_follower: bool
) -> None:
    state = Message(replica_id=4, replica_epoch=1)
    found = derived(version, replica_state=state)
    assert (found.replica_id, found.is_follower) == ((4, True) if is_follower else (-1, False))
    assert derived(14, replica_id=0).is_follower


def test_a_client_waits_for_no_negative_time_and_not_for_ever() -> None:
    waits = {time: derived(11, max_wait_ms=time).wait for time in (-5, 0, 250, 2**31 - 1)}
    assert waits == {-5: 0.0, 0: 0.0, 250: 0.25, 2**31 - 1: WAIT_MAX}


def test_only_one_level_of_isolation_is_committed() -> None:
    assert [derived(11, isolation_level=level).is_committed for level in (0, 1)] == [False, True]
    for level in (-1, 2):
        with pytest.raises(ApiError) as refused:
            derived(11, isolation_level=level)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "id_", "epoch", "has_session"),
    [(6, 9, 5, False), (7, 0, -1, False), (7, 9, -1, True), (7, 0, 0, True), (7, 9, 3, True)],
)
def test_partitions_are_shared_only_without_a_session(
    version: int, id_: int, epoch: int, has_session: bool
) -> None:
    """A session notes what it found in them. And one may have to end."""
    found = derived(version, session_id=id_, session_epoch=epoch)
    assert (found.context is None) is has_session


def test_the_same_bytes_are_derived_once_for_all_clients(broker: Broker) -> None:
    data = frame(ApiKey.Fetch, 11, request(broker, {"events": 0}, session_epoch=-1))
    found = []
    for number in range(3):
        exchange = broker.handle(Client(number, "127.0.0.1"), memoryview(data), 0.0)
        assert sent(exchange)
        found.append(exchange.request.derived)
    assert isinstance(found[0], FetchRequest)
    assert found[0] is found[1] is found[2]


@pytest.mark.parametrize("version", [*range(12), 17])
@pytest.mark.parametrize("fields", [{}, {"session_epoch": 0}, {"isolation_level": 1}])
def test_a_request_from_another_offset_is_as_if_it_were_derived(
    version: int, fields: dict[str, int]
) -> None:
    def from_offset(offset: int) -> FetchRequest:
        one = Message(
            partition=3,
            fetch_offset=offset,
            partition_max_bytes=7,
            current_leader_epoch=5,
            last_fetched_epoch=6,
            log_start_offset=8,
        )
        topics = [Message(topic="t", topic_id=bytes(16), partitions=[one])]
        return derived(version, topics=topics, **fields)

    def values(one: FetchRequest) -> dict[str, Any]:
        found = {name: getattr(one, name) for name in FetchRequest.__slots__}
        context = found.pop("context")
        found["asked"] = None if context is None else list(map(asdict, context.asked))
        if one.alone is not None:
            assert [one.alone] == context.asked
        return found | {"alone": one.alone is None}

    first, other = from_offset(5), from_offset(9)
    assert values(first.from_offset(9)) == values(other) != values(first) or first.context is None
