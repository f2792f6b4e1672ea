"""The cluster sees the client ids of the gateway's clients, in translated requests too.

A group's description shows them, and quotas of client ids are theirs."""

from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.protocol.requests import parse_start
from downconvert.protocol.schemas import ApiKey, Message

from .serving import Wire, cluster, gateway

LONG = "c" * 300  # longer than log lines show it
FETCH = Message(
    replica_id=-1,
    max_wait_ms=0,
    min_bytes=0,
    max_bytes=1000,
    topics=[
        Message(
            topic="t",
            partitions=[Message(partition=0, fetch_offset=0, partition_max_bytes=1000)],
        )
    ],
)
JOIN = Message(
    group_id="g",
    session_timeout_ms=10_000,
    member_id="",
    protocol_type="consumer",
    protocols=[Message(name="range", metadata=b"")],
)


@pytest.mark.parametrize("client_id", ["mine", LONG, "", None])
def test_translated_requests_have_the_clients_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client_id: str | None
) -> None:
    seen: list[tuple[int, str | None]] = []
    handle = Broker.handle

    def noted(broker: Broker, client: object, frame: memoryview, *more: object) -> object:
        api, _, _, name, _, _ = parse_start(frame)
        seen.append((api, name))
        return handle(broker, client, frame, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Broker, "handle", noted)
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port) as running,
        Wire(running.address) as client,
    ):
        for api, body in ((ApiKey.JoinGroup, JOIN), *2 * ((ApiKey.Fetch, FETCH),)):
            client.send(api, 0, body, client_id)
            client.receive()
    for api, count in ((ApiKey.JoinGroup, 1), (ApiKey.Fetch, 2)):
        assert [name for one, name in seen if one == api] == [client_id] * count
