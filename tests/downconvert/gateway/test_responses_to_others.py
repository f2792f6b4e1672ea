"""A response of the cluster to another request than the one that was sent reaches no client."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct

import pytest

from downconvert.access.rights import Access
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import CORRELATION_ID, frame
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

from .hanging import PIECE, Hanging
from .serving import LENGTH, Wire, cluster, gateway
from .talk import fetch_body, message_set, produce_body

CORRELATION = Struct(">i")
AT = 4  # behind the length
ALL = Message(topics=None)
OFFSETS = Message(
    replica_id=-1,
    topics=[
        Message(name="t", partitions=[Message(partition_index=0, timestamp=-1, max_num_offsets=1)])
    ],
)
REQUESTS = {
    "passes": (ApiKey.ListOffsets, 2, OFFSETS),
    "passes and is large": (ApiKey.Fetch, 11, fetch_body(0, max_bytes=1 << 22)),
    "is read": (ApiKey.Metadata, 5, ALL),
    "is translated": (ApiKey.ListOffsets, 0, OFFSETS),
    "is converted": (ApiKey.Fetch, 2, fetch_body(0)),
    "is produced": (ApiKey.Produce, 1, produce_body(message_set(0, b"v"))),
}


class Confused(Hanging):
    """Changes the correlation id of the next response by so much."""

    change = 0

    def _pass(
        self, source: socket.socket, target: socket.socket | None, is_response: bool = False
    ) -> None:
        assert target is not None
        with suppress(OSError):
            while piece := source.recv(PIECE):
                target.sendall(self._changed(piece) if is_response and self.change else piece)

    def _changed(self, piece: bytes) -> bytes:
        changed = bytearray(piece)
        (correlation_id,) = CORRELATION.unpack_from(changed, AT)
        CORRELATION.pack_into(changed, AT, correlation_id + self.change)
        self.change = 0
        return bytes(changed)


@pytest.fixture(scope="module", params=[{}, {"access": Access(consumer_byte_rate=1e6)}])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Confused, Gateway]]:
    """With rates, the beginning of a response is read to tell them."""
    path: Path = tmp_path_factory.mktemp("cluster")
    with (
        cluster(path, "t") as (broker, port),
        Confused(port) as between,
        gateway(between.port, refresh_seconds=1e6, **request.param) as running,
    ):
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        partition.log.writer.append(batch(*range(40), size=10_000))
        wait_for(lambda: bool(running.topology.nodes))  # it has asked what it asks for itself
        yield between, running


@pytest.mark.parametrize("change", [1, -1, 1 << 20])
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_response_with_another_correlation_id_never_reaches_the_client(
    served: tuple[Confused, Gateway], kind: str, change: int
) -> None:
    between, running = served
    with Wire(running.address) as client:
        assert client.ask(*REQUESTS[kind])
        between.change = change
        client.send(*REQUESTS[kind])
        assert client.has_ended()  # without another byte
    with Wire(running.address) as client:
        assert client.ask(*REQUESTS[kind])


def test_responses_in_another_order_than_their_requests_never_reach_the_client(
    served: tuple[Confused, Gateway],
) -> None:
    """Each is of a request that is under way."""
    between, running = served
    first = frame(*REQUESTS["passes"])
    second = first[:AT] + CORRELATION.pack(CORRELATION_ID + 1) + first[2 * AT :]
    with Wire(running.address) as client:
        assert client.ask(*REQUESTS["passes"])
        between.change = 1
        requests = [LENGTH.pack(len(one)) + one for one in (first, second)]
        client.socket.sendall(b"".join(requests))
        assert client.has_ended()
