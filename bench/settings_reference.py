"""Which settings are there? docs/settings.md, with the names and defaults of the code.

    python -m bench.settings_reference

A setting without words, or words without a setting, is an error. A test compares the file with the
output of this."""

import inspect
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from downconvert import ConversionPolicy
from downconvert.access import settings as access
from downconvert.access.tokens import TokenSettings
from downconvert.broker.topic_settings import SETTINGS
from downconvert.cli import gateway as command
from downconvert.gateway import settings as gateway
from downconvert.gateway.config import Limits

from .setting_words import AT_START, CLUSTER, LIMITS, LISTENER, OAUTH, RIGHTS, RULE, TABLES, TOPICS

PAGE: Final = Path(__file__).parents[1] / "docs" / "settings.md"
HEAD: Final = """# Settings

This page is written from the code (`python -m bench.settings_reference`). Options of the command
line are in [commands](commands.md).
"""
GATEWAY: Final = """
## Gateway

The file of `downconvert gateway --config FILE`, in TOML. Options and variables of the environment
override it. `--check` reads it, prints what it allows, and ends. `http`, `workers`, `verbose`,
`quiet` and `json` are as the [options](commands.md#downconvert-gateway), and are read at the start
only.
"""
ACCESS: Final = """
## Access rules

These stand at the top of the gateway's file, or of the file of `downconvert serve --access FILE`.
There they are for all clients. They may stand in a rule too (a table `[[clients]]`), unless their
line says otherwise. [How to use them](gateway-access.md). The file of `downconvert serve --config
FILE` has them beside the command's [options](commands.md#downconvert-serve): `metrics_port = 9100`.
"""
TOPIC: Final = """
## Topics

Settings of a topic have Kafka's names, defaults and limits. `CreateTopics`, `AlterConfigs` and
`downconvert serve --topic-config TOPIC:NAME=VALUE` set them.
"""
POLICY: Final = """
## Conversion policy

The fields of [`ConversionPolicy`](api/downconvert.md), and what `ConversionPolicy.kafka()` has
instead. [Why each default is what it is](conversion.md#options-and-why-each-default-is-what-it-is).
"""


def reference() -> str:
    """The whole page."""
    lines = [HEAD, GATEWAY]
    shared = (access.TOP - {"clients", "oauth"}) | access.CLIENT_LIMITS
    top = gateway.TOP - shared - TABLES.keys()
    lines += [*_words(LISTENER, top), "", "Read at the start only:", ""]
    lines += [*_words(AT_START, command.AT_START), "", "Tables:", ""]
    lines += [*_words(TABLES, TABLES.keys()), ""]
    lines += ["### [cluster]", "", *_words(CLUSTER, gateway.CLUSTER), ""]
    lines += ["### [limits]", "", "Sizes in bytes, times in seconds.", ""]
    lines += [*_defaults(LIMITS, Limits()), "", "### [oauth]", ""]
    lines += _defaults(OAUTH, TokenSettings(jwks="-", issuer="-", audience=("-",)))
    rights = access.RIGHTS | access.CLIENT_LIMITS
    rights |= {"networks", access.DENIES, "users_file", "client_ca"}
    lines += [ACCESS, *_words(RIGHTS, rights), "", "Only in a rule:", ""]
    lines += _words(RULE, (access.RULE - RIGHTS.keys()) | {access.SUPER_USER, access.FOLLOWERS})
    lines += [TOPIC, *_topics(), POLICY, *_policy()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _words(words: Mapping[str, str], names: Collection[str]) -> Iterator[str]:
    assert words.keys() == set(names), sorted(words.keys() ^ set(names))
    yield "| name | what it does |"
    yield "|---|---|"
    for name, text in words.items():
        yield f"| `{name}` | {text} |"


def _defaults(words: Mapping[str, str], of: Any) -> Iterator[str]:
    names = {field.name for field in fields(of)}
    assert words.keys() == names, sorted(words.keys() ^ names)
    yield "| name | default | what it limits or says |"
    yield "|---|---|---|"
    for name, text in words.items():
        default = getattr(of, name)
        is_needed = default in ("-", ("-",)) or default in (None, ())
        yield f"| `{name}` | {'' if is_needed else f'`{default}`'} | {text} |"


def _topics() -> Iterator[str]:
    assert TOPICS.keys() <= SETTINGS.keys(), sorted(TOPICS.keys() - SETTINGS.keys())
    yield "| name | default | effect |"
    yield "|---|---|---|"
    for name, setting in SETTINGS.items():
        if name in TOPICS:
            yield f"| `{name}` | `{setting.default}` | {TOPICS[name]} |"
    kept = ", ".join(f"`{name}`" for name in SETTINGS if name not in TOPICS)
    yield ""
    yield textwrap.fill(f"Kept and shown, without effect: {kept}.", 100, break_on_hyphens=False)


def _policy() -> Iterator[str]:
    """The options of a policy. The words are those of the class."""
    docstring = inspect.cleandoc(ConversionPolicy.__doc__ or "").split("\n\n", 1)[1]
    words = dict(re.findall(r"^(\w+): (.*(?:\n {4}.*)*)", docstring, re.M))
    yield "| field | default | `kafka()` | what it does |"
    yield "|---|---|---|---|"
    ours, kafka = ConversionPolicy(), ConversionPolicy.kafka()
    for field in fields(ConversionPolicy):
        if field.init:
            ways = [_shown(getattr(policy, field.name)) for policy in (ours, kafka)]
            other = "the same" if ways[0] == ways[1] else ways[1]
            text = " ".join(words[field.name].split())
            yield f"| `{field.name}` | {ways[0]} | {other} | {text} |"


def _shown(value: object) -> str:
    return f"`{dict(value) if isinstance(value, Mapping) else value!r}`"


if __name__ == "__main__":
    PAGE.write_text(reference())
    print(PAGE)
