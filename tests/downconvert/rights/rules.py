"""Rules as an operator writes them, and what each of them means, said a second time.

The meaning is that of docs/gateway-access.md ("What a rule allows"), in the names of
Kafka's operations.
It shares nothing with the code that it judges."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Final

Settings = Mapping[str, Any]

TOPIC, GROUP, ID, CLUSTER = "topic", "group", "transactional id", "cluster"
LOOKS: Final = frozenset({"Describe", "DescribeConfigs"})
READS: Final = LOOKS | {"Read"}
CHANGES: Final = LOOKS | {"Write", "Create", "Delete", "Alter", "AlterConfigs"}
EVERYTHING: Final = {
    TOPIC: READS | CHANGES,
    GROUP: READS | {"Delete", "AlterConfigs"},
    ID: frozenset({"Describe", "Write"}),
    CLUSTER: LOOKS | {"Create", "Alter", "AlterConfigs", "ClusterAction", "IdempotentWrite"},
}
NOTHING: Final[frozenset[str]] = frozenset()
LISTS: Final = ("topics", "written_topics", "groups", "transactional_ids")

OWN: Final = ["own-*"]
KINDS: Final[dict[str, Settings]] = {
    "nothing": {},
    "read_only": {"read_only": True},
    "topics": {"topics": OWN},
    "written": {"written_topics": OWN},
    "topics, none written": {"topics": OWN, "written_topics": ["no-*"]},
    "groups": {"groups": OWN},
    "ids": {"transactional_ids": OWN},
    "topics, groups": {"topics": OWN, "groups": OWN},
    "all lists": {"topics": OWN, "groups": OWN, "transactional_ids": OWN},
    "read_only, topics": {"read_only": True, "topics": OWN},
    "read_only, groups": {"read_only": True, "groups": OWN},
    "read_only, topics, groups": {"read_only": True, "topics": OWN, "groups": OWN},
    "read_only, all lists": {
        "read_only": True,
        "topics": OWN,
        "groups": OWN,
        "transactional_ids": OWN,
    },
    "deny": {"deny_by_default": True},
    "deny, read_only": {"deny_by_default": True, "read_only": True},
    "deny, topics": {"deny_by_default": True, "topics": OWN},
    "deny, all names": {
        "deny_by_default": True,
        "topics": ["*"],
        "groups": ["*"],
        "transactional_ids": ["*"],
    },
}


def random_rule(random: Random) -> Settings:
    """Any lists, with any patterns, and any switches."""
    patterns = (["own-*"], ["other-*"], ["*"], ["no"], ["o*r-*", "own-?"], ["*-t"], ["*-g", "*d"])
    settings: dict[str, Any] = {
        name: random.choice(patterns) for name in LISTS if random.random() < 0.4
    }
    settings |= {name: True for name in ("read_only", "deny_by_default") if random.random() < 0.3}
    return settings


def granted(settings: Settings, kind: str, name: str = "") -> frozenset[str]:
    """The operations that a client of this rule may do on a resource."""
    is_reader = settings.get("read_only", False)
    is_closed = settings.get("deny_by_default", False) or any(one in settings for one in LISTS)
    if kind == TOPIC:
        return _on_topic(settings, name, is_reader, is_closed)
    if kind == CLUSTER:
        return NOTHING if is_closed else LOOKS if is_reader else EVERYTHING[CLUSTER]
    named = settings.get("groups" if kind == GROUP else "transactional_ids")
    if named is None:
        if is_closed:
            return NOTHING
        return EVERYTHING[kind] & LOOKS if is_reader else EVERYTHING[kind]
    if not _is_in(name, named):
        return NOTHING
    return EVERYTHING[kind] & READS if is_reader else EVERYTHING[kind]


def writes_to_something(settings: Settings) -> bool:
    """Whether a client may be an idempotent producer, without a transactional id."""
    if settings.get("read_only"):
        return False
    return bool(granted(settings, CLUSTER)) or "topics" in settings or "written_topics" in settings


def _on_topic(settings: Settings, name: str, is_reader: bool, is_closed: bool) -> frozenset[str]:
    topics, written = settings.get("topics"), settings.get("written_topics")
    may_read, may_change = not is_closed or is_reader, not is_closed
    if topics is not None:
        may_read = may_change = _is_in(name, topics)
    if written is not None:
        may_change = (topics is None or may_change) and _is_in(name, written)
    if is_reader:
        may_change = False
    return (READS if may_read else NOTHING) | (CHANGES if may_change else NOTHING)


def _is_in(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
