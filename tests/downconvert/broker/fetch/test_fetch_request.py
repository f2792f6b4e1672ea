"""A fetch request is derived once, and means the same to every client that sends its bytes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, Client
from downconvert.broker.fetch.fetch_request import WAIT_MAX, FetchRequest, request_of
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
    return request_of(version, Message(**body | fields))


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
    body = request(broker, {"events": 0}, session_epoch=-1)
    body.topics *= 2
    data = frame(ApiKey.Fetch, 11, body)
    found = []
    for number in range(3):
        exchange = broker.handle(Client(number, "127.0.0.1"), memoryview(data), 0.0)
        assert sent(exchange)
        found.append(exchange.request.derived)
    assert isinstance(found[0], FetchRequest)
    assert found[0] is found[1] is found[2]
