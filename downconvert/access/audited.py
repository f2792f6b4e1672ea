"""The changes and denials of a request for the audit: each resource with its outcome.

Not here: the client, and where the lines go (the gateway's audit.py)."""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from downconvert.protocol.errors import ErrorCode, name_of
from downconvert.protocol.schemas import ApiKey, Message

from .names import COORDINATED, RULES, Names
from .operations import Kind

# APIs that change more than records, offsets and members. A gateway passes APIs that are not in
# ApiKey on, without reading their fields.
CHANGES: Final[dict[int, str]] = {
    **{
        api.value: api.name
        for api in (
            ApiKey.CreateTopics,
            ApiKey.DeleteTopics,
            ApiKey.DeleteRecords,
            ApiKey.CreateAcls,
            ApiKey.DeleteAcls,
            ApiKey.AlterConfigs,
            ApiKey.CreatePartitions,
            ApiKey.DeleteGroups,
            ApiKey.IncrementalAlterConfigs,
            ApiKey.OffsetDelete,
        )
    },
    34: "AlterReplicaLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    43: "ElectLeaders",
    45: "AlterPartitionReassignments",
    49: "AlterClientQuotas",
    51: "AlterUserScramCredentials",
    57: "UpdateFeatures",
}
DENIED: Final = frozenset(kind.value for kind in Kind)
NAMED_MAX: Final = 100  # resources in one line
TYPES: Final = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
# The resource types of ACLs, by Kafka's numbers.
ACL_TYPES: Final = {
    2: "topic",
    3: "group",
    4: "cluster",
    5: "transactional_id",
    6: "delegation_token",
    7: "user",
}
ACLS: Final = (ApiKey.CreateAcls, ApiKey.DeleteAcls)
ANY: Final = "(any)"  # a filter that matches all

Outcome: TypeAlias = dict[str, Any]


def changed(api: ApiKey, body: Message, response: Message) -> list[Outcome]:
    """The resources in the response, at most NAMED_MAX, each with its error and the names of its
    changed settings."""
    if api in ACLS:
        return _acls(api, body, response)
    names, settings = _names(api), _settings(body)
    if names is None:
        return []
    found = [
        _outcome(_word(one.kind), getattr(body, one.name), getattr(response, "error_code", 0))
        for one in RULES[api].about
    ]
    for element in (getattr(response, names.response, None) or ())[:NAMED_MAX]:
        kind, name = _kind(names, element), _name(names, element)
        outcome = _outcome(kind, name, _code(names, element))
        if (kind, name) in settings:
            outcome["settings"] = settings[kind, name]
        found.append(outcome)
    return found


def _acls(api: ApiKey, body: Message, response: Message) -> list[Outcome]:
    """The ACLs of a request. The response has their errors in the same order."""
    is_new = api is ApiKey.CreateAcls
    acls = body.creations if is_new else body.filters
    results = response.results if is_new else response.filter_results
    found = []
    for acl, result in zip(acls[:NAMED_MAX], results, strict=False):
        if is_new:
            kind, name, principal = acl.resource_type, acl.resource_name, acl.principal
        else:
            kind, name = acl.resource_type_filter, acl.resource_name_filter
            principal = acl.principal_filter
        words = f"{ACL_TYPES.get(kind, 'any')} {ANY if name is None else name}"
        words += f" for {ANY if principal is None else principal}"
        found.append(_outcome("acl", words, result.error_code))
    return found


def denied(api: ApiKey, body: Message | None, response: Message) -> list[Outcome]:
    """The resources in the response or the request that the client may not use."""
    if api is ApiKey.FindCoordinator and body is not None:
        return _coordinators(body, response)
    found: list[Outcome] = []
    names, codes = _names(api), {getattr(response, "error_code", 0)}
    if names is not None:
        for element in getattr(response, names.response, None) or ():
            code = _code(names, element)
            codes.add(code)
            if code in DENIED and len(found) < NAMED_MAX:
                found.append(_outcome(_kind(names, element), _name(names, element), code))
    rule = RULES.get(api)
    for one in () if rule is None or body is None else rule.about:
        if one.kind.value in codes:
            found.append(_outcome(_word(one.kind), getattr(body, one.name), one.kind.value))
    return found


def _coordinators(body: Message, response: Message) -> list[Outcome]:
    kind = _word(COORDINATED.get(body.key_type, Kind.CLUSTER))
    asked = getattr(response, "coordinators", None) or [
        Message(key=body.key, error_code=response.error_code)
    ]
    refused = [one for one in asked if one.error_code in DENIED][:NAMED_MAX]
    return [_outcome(kind, one.key, one.error_code) for one in refused]


def _names(api: ApiKey) -> Names | None:
    """Where a response has names. None: it has no list of them."""
    rule = RULES.get(api)
    return None if rule is None or rule.names is None else rule.names


def _code(names: Names, element: Message) -> int:
    """The error of a resource, or the first error of its parts."""
    code: int = getattr(element, "error_code", ErrorCode.NONE)
    if code or names.parts is None:
        return code
    parts: Iterable[Message] = getattr(element, names.parts.response, None) or ()
    return next((c for one in parts if (c := getattr(one, names.parts.code, 0))), ErrorCode.NONE)


def _kind(names: Names, element: Message) -> str:
    if names.type:
        return TYPES.get(getattr(element, names.type, 0), "other")
    return _word(names.kind)


def _word(kind: Kind) -> str:
    return kind.name.lower()


def _name(names: Names, element: Message) -> str:
    """The name of a resource, or the id of a topic."""
    name: str | None = getattr(element, names.response_name, None)
    return getattr(element, "topic_id", b"").hex() if name is None else name


def _settings(body: Message) -> dict[tuple[str, str], list[str]]:
    """The names of the settings that a request alters, by resource. Values may be secrets."""
    return {
        (TYPES.get(one.resource_type, "other"), one.resource_name): [
            setting.name for setting in one.configs
        ]
        for one in getattr(body, "resources", None) or ()
        if getattr(one, "configs", None)
    }


def _outcome(kind: str, name: str, code: int) -> Outcome:
    return {"kind": kind, "name": name, "error": name_of(code)}
