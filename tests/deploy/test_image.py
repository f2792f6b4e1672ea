"""deploy/Containerfile: the image is built, and the gateway and `serve` run in it."""

import socket
from pathlib import Path
from urllib.request import urlopen

import pytest

from records import Record, build
from tests.ports import free_ports

from .image import REQUIRED, Image, missing

API_VERSIONS = b"\x00\x00\x00\x0e\x00\x12\x00\x00\x00\x00\x00\x07\x00\x04test"  # version 0

pytestmark = [
    pytest.mark.others,
    pytest.mark.more,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()) and not REQUIRED, reason=missing()),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image.build(tmp_path_factory.mktemp("image"))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory that everybody may read, and nobody write to."""
    tmp_path.parent.chmod(0o755)
    tmp_path.chmod(0o755)
    directory = tmp_path / "logs"
    (directory / "clicks-0").mkdir(parents=True)
    records = [Record(offset=n, timestamp=n, value=b"v") for n in range(10)]
    (directory / "clicks-0" / "00000000000000000000.log").write_bytes(build(records, magic=2))
    return directory


def metrics(address: str) -> str:
    with urlopen(f"http://{address}/metrics", timeout=30) as response:
        text: str = response.read().decode()
    return text


def answers(port: int) -> bool:
    """Whether a client gets the list of versions."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(API_VERSIONS)
        head = client.recv(10, socket.MSG_WAITALL)
    return head[4:10] == b"\x00\x00\x00\x07\x00\x00"  # its correlation id, and no error


def test_it_runs_as_nobody_and_says_what_it_is(image: Image) -> None:
    settings = image.settings()
    assert settings["User"] == "65534:65534"
    with image.running("--version") as container:
        out, err = container.process.communicate(timeout=60)
    assert "kernel: native\n" in out
    assert "isal" in out  # of the extra
    assert not err


def test_the_gateway_and_serve_run_in_it(image: Image, logs: Path) -> None:
    http = f"127.0.0.1:{free_ports(1)[0]}"
    serve = ("serve", "/logs", "--listen", "127.0.0.1:0", "--metrics-port", "0", "--json")
    with image.running(*serve, volume=logs) as broker:
        ready = broker.ready()
        assert answers(ready["port"])
        assert 'api="ApiVersions"' in metrics(f"127.0.0.1:{ready['metricsPort']}")
        bootstrap = f"127.0.0.1:{ready['port']}"
        gateway = ("gateway", "--bootstrap", bootstrap, "--listen", "127.0.0.1:0", "--http", http)
        with image.running(*gateway, "--json") as before:
            assert answers(before.ready()["port"])
            assert "gateway_brokers 1.0\n" in metrics(http)
            assert before.end() == 0
        assert broker.end() == 0
