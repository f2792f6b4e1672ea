"""Requests of many elements, which take much more memory than their bytes, while a broker hangs."""

from contextlib import ExitStack
from pathlib import Path

from downconvert.access.rights import Access
from downconvert.gateway.config import Limits
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import ELEMENT_SIZE
from records.units import MiB
from tests.waiting import wait_for

from .hanging import Hanging
from .serving import Wire, cluster, gateway

ELEMENTS, CLIENTS, MEMORY = 10_000, 6, 8 * MiB


def test_requests_that_wait_for_the_cluster_count_by_what_their_elements_take(
    tmp_path: Path,
) -> None:
    assert MEMORY < 2 * ELEMENTS * ELEMENT_SIZE
    names = [Message(name=f"t{number:06}") for number in range(ELEMENTS)]
    with ExitStack() as stack:
        _, port = stack.enter_context(cluster(tmp_path, "t"))
        broker = stack.enter_context(Hanging(port))
        limits, access = Limits(requests_memory=MEMORY), Access(topics=("t*",))
        running = stack.enter_context(gateway(broker.port, limits=limits, access=access))
        wait_for(lambda: running.topology.api_versions is not None)
        clients = [stack.enter_context(Wire(running.address)) for _ in range(CLIENTS)]
        for client in clients:
            client.ask(ApiKey.Metadata, 4, Message(topics=names[:1]))
        broker.hangs = True
        for client in clients:
            client.send(ApiKey.Metadata, 4, Message(topics=names))
        wait_for(lambda: running.requests.free < 0)
        assert running.requests.free > MEMORY - 3 * ELEMENTS * ELEMENT_SIZE
        for client in clients:
            client.socket.close()
        wait_for(lambda: running.requests.free == MEMORY)
