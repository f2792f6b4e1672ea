"""Options of Spark's own Kafka source: each is honoured, refused, or without effect.

A query moves from a live topic to its segments by changing the format. So options that change its
rows are honoured or refused. Options for the connection to brokers have no effect: there are none.

Source: Spark's Kafka integration guide, and `KafkaSourceProvider`.

Not here: the values of options (options.py)."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

# Names of Kafka's source, in lower case, and the equivalent option here. Options with the same name
# in both are not listed.
SYNONYMS: Final = {
    "subscribe": "topics",
    "subscribepattern": "topicspattern",
    "kafka.isolation.level": "isolation",
    "kafka.check.crcs": "verifycrc",
}

_TRIGGER: Final = "a micro-batch begins as soon as there is something to read; set the interval of "
REFUSED: Final = {
    "minOffsetsPerTrigger": f"{_TRIGGER}the trigger instead",
    "maxTriggerDelay": f"{_TRIGGER}the trigger instead",
    "maxRecordsPerPartition": "records are counted only as they are read; set maxPartitionBytes",
    "kafka.auto.offset.reset": "set startingOffsets",
    "kafka.enable.auto.commit": "offsets are in the checkpoint of the query, and not committed",
    "kafka.interceptor.classes": "no consumer of Kafka's runs here",
    "kafka.key.deserializer": "keys are bytes; deserialize them in the query",
    "kafka.value.deserializer": "values are bytes; deserialize them in the query",
}

# Settings of brokers' clients and consumers.
WITHOUT_EFFECT: Final = re.compile(r"kafka\..+|kafkaconsumer\..+|fetchoffset\..+|groupidprefix")

# Properties of a catalog table itself, which Spark adds to its options.
OF_TABLES: Final = frozenset(
    {
        "clustering",
        "collation",
        "comment",
        "external",
        "owner",
        "provider",
        "serialization.format",
        "transient_lastddltime",
        "view_schema_mode",
    }
)


OPTION_PREFIX: Final = "option."


def renamed(given: Mapping[str, str]) -> dict[str, str]:
    """Options by their names here, in lower case. ValueError: one is given twice, or is refused."""
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, text in _without_prefix(given).items():
        for refused, reason in REFUSED.items():
            if name.lower() == refused.lower():
                raise ValueError(f"option {refused} is not supported: {reason}")
        key = SYNONYMS.get(name.lower(), name.lower())
        if key in found:
            raise ValueError(f"options {names[key]} and {name} mean the same: give one of them")
        found[key], names[key] = text, name
    return found


def _without_prefix(given: Mapping[str, str]) -> dict[str, str]:
    """Removes the prefix `option.` from names. For a catalog table, Spark passes some options as
    `option.topics`, some as `topics`, and some as both."""
    prefixed, plain = dict[str, str](), dict[str, str]()
    for name, text in given.items():
        if name.lower().startswith(OPTION_PREFIX):
            prefixed[name.lower().removeprefix(OPTION_PREFIX)] = text
        else:
            plain[name] = text
    known = {name.lower() for name in plain}
    return plain | {name: text for name, text in prefixed.items() if name not in known}


def unknown(names: Iterable[str]) -> list[str]:
    """Unknown options that must not be ignored."""
    return sorted(
        name for name in names if name not in OF_TABLES and not WITHOUT_EFFECT.fullmatch(name)
    )
