"""The output of `--check` of `gateway` and `serve`: what the settings mean, and the rights of each
rule.

Not here: the meaning of a rule (access/meaning.py)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from downconvert.access import meaning
from downconvert.access.identity import Identities
from downconvert.access.rights import Access

REFUSED: Final = "refused"
YES_OR_NO: Final = {True: "yes", False: "no"}


def rules_of(
    identities: Identities[Any],
    access: Access,
    credentials: Any = None,
    more: Callable[[Any], dict[str, str]] = lambda _: {},
) -> list[dict[str, Any]]:
    """A row for each rule, and one for clients that match no rule. `access`, `credentials`: of such
    clients. `more`: describes credentials."""
    rules = [
        _shown(f"rule {number}", meaning.of_clients(rule), rule.access, more(rule.credentials))
        for number, rule in enumerate(identities.rules, start=1)
    ]
    if identities.rules:
        return [*rules, {"rule": "others", "clients": REFUSED, "allows": {}}]
    shown = []
    if identities.client_ca is not None:
        shown.append("show a certificate")
    if identities.mechanisms:
        shown.append(f"log in by {', '.join(identities.mechanisms)}")
    clients = f"who {' or '.join(shown)}; others are {REFUSED}" if shown else "everybody"
    return [_shown("no rules", clients, access, more(credentials))]


def print_meaning(settings: Mapping[str, str], rules: list[dict[str, Any]]) -> None:
    """Prints lines."""
    for name, value in settings.items():
        click.echo(_line(name, value))
    for rule in rules:
        click.echo(f"\n{rule['rule']}: {rule['clients']}")
        for name, words in rule["allows"].items():
            click.echo("  " + _line(name, words))


def _shown(name: str, clients: str, access: Access, more: dict[str, str]) -> dict[str, Any]:
    return {"rule": name, "clients": clients, "allows": meaning.of_access(access) | more}


def _line(name: str, words: str) -> str:
    return f"{name:<18} {words}"
