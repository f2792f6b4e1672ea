"""Each fetch is checked with the rights of the client that sends it, also in a session.

Not here: rights to other requests (rights/), sessions of clients without limits
(test_fetch_session.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker, Client
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.fetching import broker_of, request
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.storage.logs import batch

VERSION = 11
DENIED, NO_SESSION = 29, 70


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with broker_of(tmp_path, {"ours": {0: [batch(0)]}, "theirs": {0: [batch(0)]}}) as broker:
        yield broker


def someone(*topics: str) -> Client:
    return Client(1, "127.0.0.1", access=Access(topics=topics))


def codes(response: Message) -> dict[str, int]:
    return {topic.topic: one.error_code for topic in response.responses for one in topic.partitions}


def fetch(
    broker: Broker, client: Client, offsets: dict[str, int], session: tuple[int, int] = (0, 0)
) -> Message:
    id_, epoch = session
    body = request(broker, offsets, session_id=id_, session_epoch=epoch)
    return ask(broker, ApiKey.Fetch, VERSION, body, client=client)


def test_a_denied_partition_of_a_session_is_an_error_in_each_response(broker: Broker) -> None:
    """A client that fetches on would else take it for a topic without records."""
    client = someone("ours")
    first = fetch(broker, client, {"ours": 1, "theirs": 0})
    assert codes(first) == {"ours": 0, "theirs": DENIED}
    for epoch in (1, 2):
        assert codes(fetch(broker, client, {}, (first.session_id, epoch))) == {"theirs": DENIED}


def test_a_denied_partition_keeps_the_session_in_step(broker: Broker) -> None:
    client = someone("ours")
    id_ = fetch(broker, client, {"ours": 0}).session_id
    assert codes(fetch(broker, client, {"theirs": 0}, (id_, 1)))["theirs"] == DENIED
    after = fetch(broker, client, {"ours": 1}, (id_, 2))
    assert (after.error_code, after.session_id) == (0, id_)


def test_an_unknown_session_is_an_error_of_denied_partitions_too(
    broker: Broker,
) -> None:
    response = fetch(broker, someone("ours"), {"theirs": 0}, (12345, 3))
    assert (response.error_code, codes(response)) == (NO_SESSION, {})


def test_a_session_is_not_there_for_a_client_with_other_rights(broker: Broker) -> None:
    """Its topics are not shown. A client with the same rights goes on, as after a reconnect."""
    id_ = fetch(broker, someone("theirs"), {"theirs": 0}).session_id
    response = fetch(broker, someone("ours"), {}, (id_, 1))
    assert (response.error_code, codes(response)) == (NO_SESSION, {})
    again = fetch(broker, someone("theirs"), {"theirs": 0}, (id_, 1))
    assert (again.error_code, codes(again)) == (0, {"theirs": 0})


def test_a_client_whose_rights_change_begins_anew(broker: Broker) -> None:
    client = someone("ours", "theirs")
    id_ = fetch(broker, client, {"ours": 0, "theirs": 0}).session_id
    client.access = Access(topics=("theirs",))
    assert fetch(broker, client, {}, (id_, 1)).error_code == NO_SESSION
    assert codes(fetch(broker, client, {"ours": 0, "theirs": 0})) == {"ours": DENIED, "theirs": 0}


def test_a_denied_topic_is_denied_whether_it_is_there_or_not(broker: Broker) -> None:
    broker.guard = guard_of(None, Access(topics=("ours",)))
    response = fetch(broker, Client(2, "127.0.0.1"), {"none": 0, "theirs": 0})
    assert codes(response) == {"none": DENIED, "theirs": DENIED}
