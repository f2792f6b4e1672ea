"""The schemas of custom resources, from the Go modules that define them.

Not here: the kinds of Kubernetes itself, which a package for Python has."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.fetching import once, run

BUILD: Final = Path(__file__).parents[2] / "build"
GATEWAY_API: Final = "sigs.k8s.io/gateway-api@v1.5.1"
OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
KUSTOMIZE: Final = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"
# By kind: the module, and the file in it.
DEFINED: Final = {
    "Gateway": (GATEWAY_API, "config/crd/standard/gateway.networking.k8s.io_gateways.yaml"),
    "TLSRoute": (GATEWAY_API, "config/crd/standard/gateway.networking.k8s.io_tlsroutes.yaml"),
    "ServiceMonitor": (
        OPERATOR,
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
    "PrometheusRule": (
        OPERATOR,
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
}


def kustomized(folder: Path) -> list[dict[str, Any]]:
    """The objects that `kubectl apply -k` would make of a folder."""
    home = BUILD / "kustomize"
    with once(home) as new:
        if new:
            run("go", "install", "-trimpath", KUSTOMIZE, environment={"GOBIN": str(new)})
    return list(yaml.safe_load_all(run(str(home / "kustomize"), "build", str(folder))))


def schema_of(kind: str, version: str) -> Any:
    """The schema of a custom resource, in which no other fields are allowed. KeyError: there is no
    such version."""
    module, file = DEFINED[kind]
    definition = yaml.safe_load((_module(module) / file).read_text())
    versions = {
        one["name"]: one["schema"]["openAPIV3Schema"] for one in definition["spec"]["versions"]
    }
    schema = versions[version]
    schema["properties"]["metadata"] = {"properties": {"name": {}, "labels": {}}}
    return _strict(schema)


@cache
def _module(module: str) -> Path:
    """Where a module's files are."""
    document = json.loads(run("go", "mod", "download", "-json", module, cwd=BUILD))
    return Path(document["Dir"])


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _strict(one) for name, one in schema.items()}
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["additionalProperties"] = False
    return found
