"""An old fetch of many partitions costs the cluster as many requests as it needs, and no more.

Not here: what the client gets (test_fetching.py)."""

import pytest

from downconvert.broker import Broker
from downconvert.protocol.requests import parse_body, parse_header
from downconvert.protocol.schemas import ApiKey
from tests.downconvert.gateway.cluster import Through, append
from tests.downconvert.gateway.talk import fetch, values_of
from tests.downconvert.storage.logs import batch

COUNT = 60


def test_partitions_with_large_batches_are_not_all_asked_for_again_for_each(
    broker: Broker, through: Through, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster returns a batch beyond the limit for the first partition of a request only."""
    asked: list[int] = []
    handle = broker.handle

    def counted(client: object, frame: memoryview, *more: object, **options: object) -> object:
        header = parse_header(frame)
        if header.api is ApiKey.Fetch:
            body = parse_body(header, frame).body
            asked.append(sum(len(topic.partitions) for topic in body.topics))
        return handle(client, frame, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "handle", counted)
    for partition in range(COUNT):
        if partition > 1:
            broker.topics.add_partitions("t", [partition])
        append(broker, batch(0, size=1000), partition=partition)
    parts = fetch(through, 1, *[0] * COUNT, max_bytes=100)
    assert [len(values_of(part)) for part in parts] == [1] * COUNT
    assert COUNT <= sum(asked) < 5 * COUNT
