"""`downconvert gateway --check`: what the settings mean, rule by rule, without a gateway.

Not here: what a rule means (broker/access/meaning.py)."""

import json
from typing import Any, Final

import click

from downconvert.broker.access import meaning
from downconvert.broker.access.rights import Access
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.identity import ClientRule
from downconvert.gateway.listeners import server_context
from downconvert.gateway.security import Credentials, tls_context

REFUSED: Final = "refused"
YES_OR_NO: Final = {True: "yes", False: "no"}


def show(config: GatewayConfig, *, as_json: bool) -> None:
    """Prints settings that are right, but for files that are named: ConfigError."""
    server_context(config)
    tls_context(config.security)
    told = {
        "listen": str(config.listen),
        "cluster": ", ".join(map(str, config.bootstrap)),
        "connect": "from " + (" or ".join(map(str, config.access.networks)) or "anywhere"),
        "deny by default": YES_OR_NO[config.access.denies_unnamed],
        "observe": YES_OR_NO[config.is_observing],
    }
    rules = [_rule(number, rule) for number, rule in enumerate(config.identities.rules, start=1)]
    rules.append(_others(config))
    if as_json:
        click.echo(json.dumps({**told, "rules": rules}))
        return
    for name, value in told.items():
        click.echo(_line(name, value))
    for rule in rules:
        click.echo(f"\n{rule['rule']}: {rule['clients']}")
        for name, words in rule["allows"].items():
            click.echo("  " + _line(name, words))


def _rule(number: int, rule: ClientRule) -> dict[str, Any]:
    allows = _allows(rule.access, rule.credentials)
    return {"rule": f"rule {number}", "clients": meaning.of_clients(rule), "allows": allows}


def _others(config: GatewayConfig) -> dict[str, Any]:
    """Clients that no rule is for."""
    identities = config.identities
    if identities.rules:
        return {"rule": "others", "clients": REFUSED, "allows": {}}
    shown = []
    if identities.client_ca is not None:
        shown.append("show a certificate")
    if identities.mechanisms:
        shown.append(f"log in by {', '.join(identities.mechanisms)}")
    clients = f"who {' or '.join(shown)}; others are {REFUSED}" if shown else "everybody"
    if config.is_observing:
        allows = {"everything": "passes through: the cluster decides"}
    else:
        allows = _allows(config.access, config.security.credentials)
    return {"rule": "no rules", "clients": clients, "allows": allows}


def _allows(access: Access, credentials: Credentials | None) -> dict[str, str]:
    allows = meaning.of_access(access)
    if credentials is not None:
        allows["asks as"] = f"{credentials.username or '?'}, by {credentials.mechanism}"
    return allows


def _line(name: str, words: str) -> str:
    return f"{name:<18} {words}"
