"""The effect of a rule in words, for the operator who wrote it.

Not here: the rights (rights.py), where the words are shown (cli/gateway_check.py)."""

from collections.abc import Mapping
from typing import Any

from . import operations
from .identity import ClientRule
from .operations import Kind
from .rights import Access

NONE, ALL = "none", "all"


def of_access(access: Access) -> dict[str, str]:
    """The rights of such a client, by kind of resource."""
    words = {
        "read topics": _read(access),
        "change topics": _changed(access),
        "groups": _groups(access),
        "transactional ids": _ids(access),
        "the cluster": _cluster(access),
    }
    if access.follower_ids:
        words["follows as"] = "broker " + ", ".join(map(str, sorted(access.follower_ids)))
    for name, rate in (
        ("produce", access.producer_byte_rate),
        ("fetch", access.consumer_byte_rate),
    ):
        if rate is not None:
            words[name] = f"at most {rate:,.0f} bytes a second"
    return words | _limits(access)


def _limits(access: Access) -> dict[str, str]:
    """The limits of each client that only gateways support."""
    limits = []
    if access.connections is not None:
        limits.append(f"at most {access.connections:,}")
    if access.connection_creation_rate is not None:
        limits.append(f"{access.connection_creation_rate:g} new ones a second")
    words = {"connections": ", ".join(limits)} if limits else {}
    if access.request_percentage is not None:
        words["request time"] = f"at most {access.request_percentage:g} % of one core"
    return words


def of_clients(rule: ClientRule[Any]) -> str:
    """The clients that a rule matches."""
    shown = {"user": rule.user, "group": rule.group, "certificate": rule.certificate}
    who = [f"{name} {pattern}" for name, pattern in shown.items() if pattern is not None]
    if rule.networks:
        who.append("from " + " or ".join(map(str, rule.networks)))
    return ", ".join(who)


def _read(access: Access) -> str:
    if access.topics:
        return ", ".join(access.topics)
    return ALL if access.is_read_only or not access.is_closed else NONE


def _changed(access: Access) -> str:
    """The topics that a client may write to, create, configure and delete."""
    if not access.writes_somewhere:
        return NONE
    if access.topics and access.written_topics:
        return f"{', '.join(access.written_topics)}, of {', '.join(access.topics)}"
    return ", ".join(access.written_topics or access.topics) or ALL


def _groups(access: Access) -> str:
    doing = "join and commit" if access.is_read_only else "join, commit and delete"
    if access.groups:
        return f"{', '.join(access.groups)}: {doing}"
    if access.is_closed:
        return NONE
    return (
        f"{ALL}: look at, and neither join nor commit" if access.is_read_only else f"{ALL}: {doing}"
    )


def _ids(access: Access) -> str:
    if not access.transactional_ids and access.is_closed:
        return NONE
    names = ", ".join(access.transactional_ids) or ALL
    return f"{names}: look at" if access.is_read_only else f"{names}: use, and fence who does"


def _cluster(access: Access) -> str:
    allowed = access.operations(Kind.CLUSTER, "")
    words: Mapping[int, str] = {operations.NO_OPERATION: "nothing", operations.LOOKING: "look at"}
    return words.get(allowed, "everything")
