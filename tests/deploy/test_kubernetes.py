"""deploy/kubernetes: the gateway takes its settings, its ports and names fit one another, and the
objects fit the schemas of Kubernetes, of the Gateway API and of Prometheus' operator."""

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any, Final

import pytest
import yaml

from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.settings import build
from tests.programs import needs

from .custom_resources import DEFINED, kustomized, schema_of

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
FOLDER: Final = DEPLOY / "kubernetes"
SETTINGS: Final = (FOLDER / "base" / "gateway.toml").read_text()
FILES: Final = [path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml"]


def objects(*folders: str) -> dict[str, Any]:
    """By kind: there is one of each."""
    found = [
        one
        for path in FILES
        if path.parent.name in folders
        for one in yaml.safe_load_all(path.read_text())
    ]
    kinds = {one["kind"]: one for one in found}
    assert len(kinds) == len(found)
    return kinds


@pytest.fixture
def config(tmp_path: Path) -> GatewayConfig:
    """The settings, with files of secrets that are here."""
    for name, text in (("users", "billing-1:secret\n"), ("cluster-password", "secret\n")):
        (tmp_path / name).write_text(text)
    return build(tomllib.loads(SETTINGS.replace("/secrets/", f"{tmp_path}/")), {})


def test_the_gateway_takes_its_settings(config: GatewayConfig) -> None:
    assert config.goes_by_name
    assert not config.has_node_ports
    assert config.security.tls
    assert config.security.credentials is not None
    assert config.identities.rules, "clients that no rule matches are refused"
    (container,) = objects("base")["Deployment"]["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["kafka"] == config.listen.port


def test_the_routes_from_outside_lead_to_the_names_that_clients_get(
    config: GatewayConfig,
) -> None:
    assert config.advertised is not None
    service = objects("base")["Service"]
    (port,) = service["spec"]["ports"]
    ingress = objects("ingress")["Ingress"]
    hosts = [rule["host"] for rule in ingress["spec"]["rules"]]
    assert hosts[0] in config.server_names
    assert [config.advertised.node_of(host) for host in hosts[1:]] == [0, 1, 2]
    outside = objects("tls-route")
    first, wildcard = outside["TLSRoute"]["spec"]["hostnames"]
    assert first in config.server_names
    assert config.advertised.node_of(wildcard.replace("*", "broker-7")) == 7
    (listener,) = outside["Gateway"]["spec"]["listeners"]
    assert listener["port"] == config.advertised.port
    assert listener["tls"] == {"mode": "Passthrough"}
    (parent,) = outside["TLSRoute"]["spec"]["parentRefs"]
    assert parent["name"] == outside["Gateway"]["metadata"]["name"]
    assert parent["sectionName"] == listener["name"]
    (rule,) = outside["TLSRoute"]["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": service["metadata"]["name"], "port": port["port"]}]


def test_prometheus_is_led_to_the_pods() -> None:
    monitored, kinds = objects("monitoring"), objects("base")
    service, monitor = monitored["Service"], monitored["ServiceMonitor"]
    labels = kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    assert "labels" not in kinds["Service"]["metadata"], "else it would be observed too"
    (port,), (endpoint,) = service["spec"]["ports"], monitor["spec"]["endpoints"]
    assert endpoint["port"] == port["name"]
    (container,) = kinds["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert port["targetPort"] in {one["name"] for one in container["ports"]}


@pytest.mark.parametrize("folder", ["base", "ingress", "monitoring"])
def test_every_object_fits_the_schema_of_the_kubernetes_api(folder: str) -> None:
    import kubernetes_validate as schemas

    newest = schemas.latest_version()
    for kind, one in objects(folder).items():
        if kind in DEFINED:
            continue
        schemas.validate(one, newest, strict=True)
        misspelt = {**one, "metadata": {**one["metadata"], "nam": "gateway"}}
        with pytest.raises(schemas.ValidationError):
            schemas.validate(misspelt, newest, strict=True)


def custom() -> Iterator[dict[str, Any]]:
    found = objects("tls-route") | objects("monitoring")
    yield from (one for kind, one in found.items() if kind in DEFINED)
    yield {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "downconvert-gateway"},
        "spec": yaml.safe_load((DEPLOY / "alerts.yaml").read_text()),
    }


@pytest.mark.others
@needs("go")
@pytest.mark.parametrize("one", [*custom()], ids=lambda one: str(one["kind"]))
def test_every_custom_object_fits_its_definition(one: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator as Validator

    schema = Validator(schema_of(one["kind"], one["apiVersion"].partition("/")[2]))
    assert list(schema.iter_errors(one)) == []
    for misspelt in _misspelt(one["spec"]):
        assert list(schema.iter_errors({**one, "spec": misspelt}))


def _misspelt(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same with one field more, at the top and in the first element of each list."""
    yield {**spec, "misspelt": 1}
    for name, value in spec.items():
        if isinstance(value, list) and isinstance(value[0], dict):
            changed = copy.deepcopy(spec)
            changed[name][0]["misspelt"] = 1
            yield changed


@pytest.mark.others
@pytest.mark.more
@needs("go")
def test_kustomize_makes_all_objects_and_a_rolling_update_of_other_settings(
    tmp_path: Path,
) -> None:
    made = kustomized(FOLDER)
    written = objects("base") | objects("tls-route") | objects("monitoring")
    assert {one["kind"] for one in made} == written.keys() | {"ConfigMap"}
    (settings,) = [one for one in made if one["kind"] == "ConfigMap"]
    assert settings["data"] == {"gateway.toml": SETTINGS}
    assert _settings_of_pods(made) == settings["metadata"]["name"]
    copytree(FOLDER, tmp_path / "kubernetes")
    (tmp_path / "gateway.toml").write_text(SETTINGS.replace("200", "300"))
    (tmp_path / "kustomization.yaml").write_text(
        "resources: [kubernetes]\n"
        "configMapGenerator:\n"
        "  - {name: downconvert-gateway, behavior: replace, files: [gateway.toml]}\n"
    )
    changed = kustomized(tmp_path)
    assert _settings_of_pods(changed) != _settings_of_pods(made)
    (settings,) = [one for one in changed if one["kind"] == "ConfigMap"]
    assert "connections = 300" in settings["data"]["gateway.toml"]


def _settings_of_pods(made: list[dict[str, Any]]) -> str:
    (deployment,) = [one for one in made if one["kind"] == "Deployment"]
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    (name,) = [one["configMap"]["name"] for one in volumes if one["name"] == "settings"]
    return str(name)


def test_everything_is_about_the_pods_of_the_deployment() -> None:
    kinds = objects("base")
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
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod["spec"]["volumes"]}


def test_requests_under_way_have_the_time_that_they_may_take(config: GatewayConfig) -> None:
    pod = objects("base")["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    _, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    needed = float(seconds) + config.limits.drain_timeout
    assert pod["terminationGracePeriodSeconds"] > needed
