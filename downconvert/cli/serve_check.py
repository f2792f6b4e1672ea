"""`downconvert serve --check`: prints the meaning of the settings, rule by rule, and starts no
broker.

Not here: printing rules (rules_shown.py)."""

import json
from typing import Any, Final

import click
from click.core import ParameterSource

from downconvert.access.guard import Guard

from .rules_shown import YES_OR_NO, print_meaning, rules_of

SHOWN: Final = ("directory", "listen", "writable")  # always; other settings only if changed
LEFT_OUT: Final = ("config", "check", "as_json")


def show(context: click.Context, guard: Guard, *, as_json: bool) -> None:
    """Prints valid settings."""
    settings = {
        name.replace("_", " "): _text(value)
        for name, value in sorted(context.params.items(), key=_place)
        if name in SHOWN or (name not in LEFT_OUT and _is_set(context, name))
    }
    settings["connect"] = "from " + (" or ".join(map(str, guard.access.networks)) or "anywhere")
    settings["deny by default"] = YES_OR_NO[guard.access.denies_unnamed]
    rules = rules_of(guard.identities, guard.access)
    if as_json:
        click.echo(json.dumps({**settings, "rules": rules}))
    else:
        print_meaning(settings, rules)


def _place(item: tuple[str, Any]) -> int:
    return SHOWN.index(item[0]) if item[0] in SHOWN else len(SHOWN)


def _is_set(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return YES_OR_NO[value]
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], int):
        return f"{value[0]}:{value[1]}"
    return "; ".join(map(_text, value)) if isinstance(value, tuple) else str(value)
