"""deploy/kubernetes.yaml: what it holds for the gateway is what the gateway takes, and its ports
and names fit one another."""

import re
import tomllib
from pathlib import Path
from typing import Final

from downconvert.gateway.settings import build

ROOT: Final = Path(__file__).parents[2]
TEXT: Final = (ROOT / "deploy" / "kubernetes.yaml").read_text()


def settings(text: str) -> str:
    """The block of the file's text that begins with `bootstrap`."""
    found = re.search(r"^( *)bootstrap = .*\n(?:\1.*\n)*", text, flags=re.MULTILINE)
    assert found is not None
    return re.sub(rf"^{found[1]}", "", found[0], flags=re.MULTILINE)


def test_the_gateway_takes_its_settings() -> None:
    config = build(tomllib.loads(settings(TEXT)), {})
    assert config.goes_by_name
    assert not config.has_node_ports
    assert f"containerPort: {config.listen.port} " in TEXT
    assert config.advertised is not None
    hosts = re.findall(r"host: ([\w.-]+)", TEXT)
    assert hosts[0] in config.server_names
    assert [config.advertised.node_of(host) for host in hosts[1:]] == [0, 1, 2]
