"""`downconvert gateway --check`: prints the meaning of the settings, rule by rule, and starts no
gateway.

Not here: printing rules (rules_shown.py)."""

import json
import time
from collections.abc import Mapping
from typing import Any

import click

from downconvert.gateway.certificates import Certificates
from downconvert.gateway.clusters import CLUSTERS, ONLY, cluster_named
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.security import Credentials

from .rules_shown import YES_OR_NO, print_meaning, rules_of


def show(clusters: Mapping[str, GatewayConfig], *, as_json: bool) -> None:
    """Prints valid settings. ConfigError: a file that they name cannot be used."""
    meanings = []
    for number, (name, config) in enumerate(clusters.items()):
        with cluster_named(name, number):
            meanings.append(_meaning(name, config))
    if as_json:
        objects = [{**settings, "rules": rules} for settings, rules in meanings]
        click.echo(json.dumps(objects[0] if ONLY in clusters else {CLUSTERS: objects}))
        return
    for number, (settings, rules) in enumerate(meanings):
        if number:
            click.echo()
        print_meaning(settings, rules)


def _meaning(name: str, config: GatewayConfig) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The settings of one cluster and its rules, in words."""
    config.check_directories()
    certificates = Certificates(config)
    settings = {} if name == ONLY else {"name": name}
    settings |= {
        "listen": str(config.listen),
        "cluster": ", ".join(map(str, config.bootstrap)),
        "connect": "from " + (" or ".join(map(str, config.access.networks)) or "anywhere"),
        "TLS": _tls(config, certificates.valid_until),
        "PROXY header": " or ".join(map(str, config.proxy_networks)) or "from nobody",
        "deny by default": YES_OR_NO[config.access.denies_unnamed],
        "observe": YES_OR_NO[config.is_observing],
    }
    access, credentials = config.access, config.security.credentials
    rules = rules_of(config.identities, access, credentials, _towards_cluster)
    if config.is_observing:
        rules[-1]["allows"] = {"everything": "passes through: the cluster decides"}
    return settings, rules


def _tls(config: GatewayConfig, valid_until: float | None) -> str:
    if valid_until is None:
        return "no"
    date = time.strftime("%Y-%m-%d", time.gmtime(valid_until))
    old = ", which is not safe" if config.takes_old_tls else ""
    return f"{config.tls_min_version} and later{old}; the certificate is valid until {date}"


def _towards_cluster(credentials: Credentials | None) -> dict[str, str]:
    if credentials is None:
        return {}
    return {"asks as": f"{credentials.username or '?'}, by {credentials.mechanism}"}
