"""deploy/kubernetes.yaml: what it holds for the gateway is what the gateway takes, and its ports
and names fit one another."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

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


def test_every_object_fits_the_schema_of_the_kubernetes_api() -> None:
    import kubernetes_validate as schemas

    newest = schemas.latest_version()
    for one in objects().values():
        schemas.validate(one, newest, strict=True)
        misspelt = {**one, "metadata": {**one["metadata"], "nam": "gateway"}}
        with pytest.raises(schemas.ValidationError):
            schemas.validate(misspelt, newest, strict=True)


def objects() -> dict[str, Any]:
    """By their kinds, of which there is one each."""
    found = list(yaml.safe_load_all(TEXT))
    kinds = {one["kind"]: one for one in found}
    assert len(kinds) == len(found)
    return kinds


def test_everything_is_about_the_pods_of_the_deployment() -> None:
    kinds = objects()
    pod = kinds["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    selectors = [
        kinds["Deployment"]["spec"]["selector"]["matchLabels"],
        kinds["Service"]["spec"]["selector"],
        kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        term["podAffinityTerm"]["labelSelector"]["matchLabels"],
    ]
    assert all(selector == labels for selector in selectors)
    (container,) = pod["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    allowed = kinds["NetworkPolicy"]["spec"]["ingress"]
    assert {port["port"] for rule in allowed for port in rule["ports"]} == ports


def test_requests_under_way_have_the_time_that_they_may_take() -> None:
    pod = objects()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    _, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    config = build(tomllib.loads(settings(TEXT)), {})
    needed = float(seconds) + config.limits.drain_timeout
    assert pod["terminationGracePeriodSeconds"] > needed
