"""The client of small fetches asks as often as it says, and takes no other response than
expected."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers.draining import Wire
from bench.servers.small_client import Shape, SmallClient, size_of_response, small_client
from bench.servers.small_requests import KINDS
from bench.small_fetches import SHAPES
from downconvert.protocol.schemas import ApiKey
from tests.downconvert.broker.talking import serving
from tests.programs import needs

pytestmark = needs("cc")
(API_VERSIONS,) = (kind for kind in KINDS if kind.name == "ApiVersions")


@pytest.fixture
def client() -> Iterator[SmallClient]:
    with small_client() as compiled:
        yield compiled


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_client_sends_the_requested_number_of_requests(
    client: SmallClient, tmp_path: Path, shape: Shape
) -> None:
    with serving(tmp_path) as server:
        port = server.address[1]
        with Wire(server.address) as wire:
            frame = API_VERSIONS.frame(wire)
        size = size_of_response(port, frame)
        ran = client.run(port, shape, 200, frame, size)
        sent = "downconvert_broker_requests_total"
        labels = {"api": ApiKey.ApiVersions.name, "version": "0"}
        counted = server.broker.metrics.registry.get_sample_value(sent, labels)
    assert counted == 201
    assert 0 < ran.cpu_seconds <= ran.seconds * 2


def test_a_response_of_another_size_is_an_error(client: SmallClient, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        port = server.address[1]
        with Wire(server.address) as wire:
            frame = API_VERSIONS.frame(wire)
        size = size_of_response(port, frame)
        with pytest.raises(RuntimeError, match="another size"):
            client.run(port, SHAPES[0], 200, frame, size - 1)
