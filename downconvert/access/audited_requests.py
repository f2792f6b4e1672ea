"""The resources of requests that a gateway passes on, for the audit.

The resources have no error, because the gateway does not read the response. Requests about
delegation tokens have no resources here, because this project does not know their fields.

Not here: requests whose responses are read (audited.py)."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

from downconvert.protocol.decoder import Cursor, decode, reader
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.requests import FLEXIBLE_HEADER
from downconvert.protocol.schemas import Message, schema

from .audited import NAMED_MAX, Outcome

Named: TypeAlias = Iterator[dict[str, Any]]
ALL: Final = "(all)"
DEFAULT: Final = "(default)"  # a quota of clients that have none of their own


def requested(api: str, version: int, frame: memoryview, size: int) -> list[Outcome]:
    """The resources that a request names, at most NAMED_MAX. `api`: the API's name. `frame`: the
    request without its length. `size`: of its header, without tagged fields. Returns an empty list
    if the API or version is not known, or if the request is malformed. The cluster then
    responds."""
    named = NAMED.get(api)
    if named is None:
        return []
    try:
        known = schema(f"{api}Request")
        if version > known.newest:
            return []
        if version in known.flexible:
            cursor = Cursor(frame)
            reader("RequestHeader", FLEXIBLE_HEADER)(cursor)
            size = cursor.position
        body = decode(known.name, version, frame[size:])
        return list(islice(named(body), NAMED_MAX))
    except (BadRequestError, KeyError):
        return []


def _log_dirs(body: Message) -> Named:
    for directory in body.dirs:
        for topic in directory.topics:
            yield {"kind": "topic", "name": topic.name}


def _elections(body: Message) -> Named:
    if body.topic_partitions is None:
        yield {"kind": "topic", "name": ALL}
    for one in body.topic_partitions or ():
        yield {"kind": "topic", "name": one.topic}


def _reassignments(body: Message) -> Named:
    for topic in body.topics:
        yield {"kind": "topic", "name": topic.name}


def _quotas(body: Message) -> Named:
    for entry in body.entries:
        parts = (
            f"{one.entity_type}={DEFAULT if one.entity_name is None else one.entity_name}"
            for one in entry.entity
        )
        settings = [one.key for one in entry.ops]
        yield {"kind": "client_quota", "name": ",".join(parts), "settings": settings}


def _users(body: Message) -> Named:
    for one in (*body.deletions, *body.upsertions):
        yield {"kind": "user", "name": one.name}


def _features(body: Message) -> Named:
    for one in body.feature_updates:
        yield {"kind": "feature", "name": one.feature}


NAMED: Final[dict[str, Callable[[Message], Named]]] = {
    "AlterReplicaLogDirs": _log_dirs,
    "ElectLeaders": _elections,
    "AlterPartitionReassignments": _reassignments,
    "AlterClientQuotas": _quotas,
    "AlterUserScramCredentials": _users,
    "UpdateFeatures": _features,
}
