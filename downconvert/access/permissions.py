"""The parts of a request that may go to the cluster, and of its response that the client may see.

A listener with lists of names offers only the APIs whose names are known (names.py). A name that a
client may not use is removed from its request, and never reaches the cluster. In the response it
gets Kafka's own error, beside the cluster's results for the other names. Names that the client did
not request and may not see are removed from the response.

Metadata and assignments that the members of a group exchange are forwarded unchanged, except in
DescribeGroups, which shows them to any client.

Not here: the lists (rights.py), the calls of this module (the broker, a gateway's session)."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message

from . import group_members
from .names import COORDINATED, OFFSETS, RULES, Names
from .operations import DELETE, DESCRIBE, NOT_ASKED, Kind
from .rights import Access

NO_ID: Final = bytes(16)

# The first versions with other fields.
DELETES_BY_ID: Final = 6
FETCHES_OF_GROUPS: Final = 8
FAILS_AS_A_WHOLE: Final = 2  # OffsetFetch: one error for the group, not for each partition
NULL_PROTOCOLS: Final = 7  # JoinGroup
FINDS_KEYS: Final = 4
FINDS_SHARE_GROUPS: Final = 6

METADATA_BY_NAME, METADATA_BY_ID = 4, 12  # versions of the gateway's own Metadata requests

# Other fields of a response to a refused request, with their empty values.
NOTHING: Final = {ApiKey.InitProducerId: {"producer_epoch": -1}}

# The fields of responses with the operations that a client may do.
AUTHORIZED: Final = {
    Kind.TOPIC: "topic_authorized_operations",
    Kind.GROUP: "authorized_operations",
    Kind.CLUSTER: "cluster_authorized_operations",
}


def allows(access: Access, kind: Kind, name: str | None, operation: int = DESCRIBE) -> bool:
    """Whether an operation is allowed on this name. Without a name (None) it is."""
    return name is None or access.operations(kind, name) & operation == operation


def question(api: ApiKey, version: int, body: Message) -> tuple[int, Message] | None:
    """A Metadata request, with its version, that must be answered before this request can be
    checked. It is needed if the request names topics by id, or means all topics. None otherwise."""
    if api is ApiKey.DeleteTopics and version >= DELETES_BY_ID:
        ids = [Message(topic_id=one.topic_id, name=None) for one in body.topics if _has_id(one)]
        return (METADATA_BY_ID, _metadata(ids)) if ids else None
    if api is ApiKey.DescribeTopicPartitions and not body.topics:
        return METADATA_BY_NAME, _metadata(None)
    return None


def _metadata(topics: list[Message] | None) -> Message:
    return Message(topics=topics, allow_auto_topic_creation=False)


def _has_id(topic: Message) -> bool:
    return bool(topic.topic_id != NO_ID)


def _is_by_id(topic: Message) -> bool:
    return topic.name is None or any(getattr(topic, "topic_id", NO_ID))


def metadata_without_ids(topics: Iterable[Message]) -> Message:
    """The error response to a Metadata request by ids, for versions that have the field but do not
    support it."""
    code = ErrorCode.INVALID_REQUEST
    answered = [
        Message(name=one.name or "", topic_id=one.topic_id, error_code=code) for one in topics
    ]
    return Message(brokers=[], controller_id=-1, topics=answered)


def refused_writes(body: Message) -> Message:
    """The response to a Produce at a read-only listener."""
    names = RULES[ApiKey.Produce].names
    assert names is not None
    return Message(
        responses=[names.refusal(one, Kind.TOPIC.value) for one in body.topic_data],
    )


class Permission:
    """Removes forbidden parts from one request, and from its response the parts that the client may
    not see.

    `topics`: from the response to `question`."""

    def __init__(
        self,
        access: Access,
        api: ApiKey,
        version: int,
        body: Message,
        topics: Iterable[Message] = (),
    ) -> None:
        self.refusal: Message | None = None  # the whole response, if no part is allowed
        self._access = access
        self._api, self._version = api, version
        self._rule = RULES[api]
        self._names = self._rule.names
        self._refused: list[Message] = []  # refused elements, for the response
        self._refused_of_group: dict[str, list[Message]] = {}
        self._asked_ids: set[bytes] = set()
        if not allows(access, Kind.CLUSTER, "", self._rule.cluster):
            self.refusal = self._refusal_of_all(body, Kind.CLUSTER.value)
            return
        match api:
            case ApiKey.FindCoordinator:
                self._check_coordinators(body)
            case ApiKey.OffsetFetch if version >= FETCHES_OF_GROUPS:
                self._check_groups_offsets(body)
            case ApiKey.DeleteTopics if version >= DELETES_BY_ID:
                self._check_deletions(body, {one.topic_id: one.name for one in topics})
            case ApiKey.DescribeTopicPartitions:
                self._check_described(body, topics)
            case _:
                self._check(body)

    @property
    def takes_all(self) -> bool:
        """Whether nothing has been removed from the request."""
        return self.refusal is None and not self._refused and not self._refused_of_group

    # --- the request

    def _check(self, body: Message) -> None:
        for name, kind, operation in self._rule.about:
            if not allows(self._access, kind, getattr(body, name), operation):
                self.refusal = self._refusal_of_all(body, kind.value)
                return
        if self._api is ApiKey.InitProducerId and body.transactional_id is None:
            if not self._access.writes_somewhere:
                self.refusal = self._refusal_of_all(body, Kind.CLUSTER.value)
            return
        if self._api is ApiKey.Metadata and self._version >= METADATA_BY_ID:
            self._asked_ids = {one.topic_id for one in body.topics or () if one.name is None}
        elif self._api is ApiKey.Metadata and any(map(_is_by_id, body.topics or ())):
            self.refusal = metadata_without_ids(body.topics)
            return
        if self._names is not None and self._names.request:
            self._take_out(body, self._names, lambda names, one: self._code(names, one))

    def _code(self, names: Names, element: Any) -> int:
        """The error for an element of the request, or 0."""
        kind = names.kind_of(element)
        is_allowed = allows(self._access, kind, names.name_of(element), names.operation)
        return ErrorCode.NONE if is_allowed else kind.value

    def _take_out(self, body: Message, names: Names, code_of: Callable[[Names, Any], int]) -> None:
        kept = []
        for element in getattr(body, names.request) or ():
            code = code_of(names, element)
            if code:
                self._refused.append(names.refusal(element, code))
            else:
                kept.append(element)
        if not self._refused:
            return
        if self._rule.is_all_or_nothing:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            self._refused += [names.refusal(one, code) for one in kept]
            kept = []
        setattr(body, names.request, kept)
        # A request without elements is not sent, because in some APIs an empty list means all.
        if not kept and not self._rule.is_always_sent:
            self.refusal = Message(**{names.response: self._refused} if names.response else {})

    def _refusal_of_all(self, body: Message, code: int) -> Message:
        response = Message(error_code=code, **NOTHING.get(self._api, {}))
        if self._api is ApiKey.JoinGroup and self._version >= NULL_PROTOCOLS:
            response.protocol_name = None
        if self._api is ApiKey.OffsetFetch and self._version >= FAILS_AS_A_WHOLE:
            response.topics = []
        elif self._names is not None:
            elements = getattr(body, self._names.request) or ()
            answered = [self._names.refusal(one, code) for one in elements]
            setattr(response, self._names.response, answered)
        return response

    def _check_coordinators(self, body: Message) -> None:
        kind = COORDINATED.get(body.key_type, Kind.CLUSTER)
        is_unknown = body.key_type not in COORDINATED and self._version < FINDS_SHARE_GROUPS
        denial = ErrorCode.INVALID_REQUEST if is_unknown else kind.value
        nowhere = {"node_id": -1, "host": "", "port": -1}
        if self._version < FINDS_KEYS:
            if not allows(self._access, kind, body.key):
                self.refusal = Message(error_code=denial, **nowhere)
            return
        self._names = Names(
            request="coordinator_keys",
            name="",
            response="coordinators",
            response_name="key",
            kind=kind,
        )
        self._take_out(body, self._names, lambda names, key: self._code(names, key) and denial)
        for one in self._refused:
            one.__dict__.update(nowhere)

    def _check_groups_offsets(self, body: Message) -> None:
        """Checks several groups, each with topics. A missing list means all topics."""
        kept = []
        for group in body.groups:
            name, topics = group.group_id, group.topics or ()
            if not self._access.allows_group(name):
                code = Kind.GROUP.value
                self._refused.append(Message(group_id=name, error_code=code, topics=[]))
                continue
            kept.append(group)
            refused = [one for one in topics if not self._access.allows(one.name)]
            if refused:
                code = Kind.TOPIC.value
                self._refused_of_group[name] = [OFFSETS.refusal(one, code) for one in refused]
                group.topics = [one for one in topics if self._access.allows(one.name)]
        body.groups = kept
        if self._refused and not kept:
            self.refusal = Message(groups=self._refused)

    def _check_deletions(self, body: Message, names: dict[bytes, str | None]) -> None:
        """Checks topics by name, or by id. The name for an id is in `names`. A topic with both is
        refused."""
        self._names = Names(response="responses", operation=DELETE)
        kept = []
        for topic in body.topics:
            name = topic.name
            if not _has_id(topic):
                code = self._code(self._names, topic)
            else:
                found = names.get(topic.topic_id)
                code = ErrorCode.UNKNOWN_TOPIC_ID
                if name is None and found is not None and self._access.allows(found):
                    name = found
                    code = self._code(self._names, Message(name=name))
            if code:
                answered = Message(name=name, topic_id=topic.topic_id, error_code=code)
                self._refused.append(answered)
            else:
                kept.append(topic)
        body.topics = kept
        if self._refused and not kept:
            self.refusal = Message(responses=self._refused)

    def _check_described(self, body: Message, topics: Iterable[Message]) -> None:
        """Replaces "all topics" by the topics that the client may see. So each page of the
        response, and its cursor, has only these."""
        if not body.topics:
            body.topics = [Message(name=one.name) for one in topics]
            names = {one.name for one in body.topics if self._access.allows(one.name)}
            body.topics = [Message(name=name) for name in sorted(names)]
        else:
            self._check(body)
        if self.refusal is None and body.cursor is not None:
            place = body.cursor.topic_name
            if not self._access.allows(place):
                following = min((one.name for one in body.topics if one.name > place), default="")
                body.cursor.topic_name, body.cursor.partition_index = following, 0
                body.topics = body.topics if following else []
        if self.refusal is None and not body.topics:
            self.refusal = Message(topics=self._refused, next_cursor=None)

    # --- the response

    def complete(self, response: Message) -> None:
        """Removes elements that the client may not see from the cluster's response, and adds the
        refused ones."""
        match self._api:
            case ApiKey.OffsetFetch if self._version >= FETCHES_OF_GROUPS:
                self._complete_offsets(response)
                return
            case ApiKey.Metadata:
                self._limit(response, Kind.CLUSTER)
                for topic in response.topics:
                    self._hide_name(topic)
                    self._limit(topic, Kind.TOPIC, topic.name or "")
            case ApiKey.DescribeTransactions:
                for one in response.transaction_states:
                    one.topics = [it for it in one.topics if self._access.allows(it.topic)]
            case ApiKey.DescribeGroups:
                for group in response.groups:
                    group_members.hide(group, self._access)
                    self._limit(group, Kind.GROUP, getattr(group, "group_id", ""))
            case ApiKey.DescribeCluster:
                self._limit(response, Kind.CLUSTER)
            case ApiKey.DescribeTopicPartitions:
                for topic in response.topics:
                    self._limit(topic, Kind.TOPIC, topic.name or "")
                cursor = response.next_cursor
                if cursor is not None and not self._access.allows(cursor.topic_name):
                    response.next_cursor = None
        names = self._names
        if names is not None:
            answered = [
                one
                for one in getattr(response, names.response, ())
                if self._may_be_described(names, one)
            ]
            setattr(response, names.response, [*answered, *self._refused])

    def _limit(self, element: Message, kind: Kind, name: str = "") -> None:
        """Removes operations that the client may not do from the cluster's response."""
        answered = getattr(element, AUTHORIZED[kind], NOT_ASKED)
        if answered != NOT_ASKED:
            setattr(element, AUTHORIZED[kind], answered & self._access.operations(kind, name))

    def _may_be_described(self, names: Names, element: Message) -> bool:
        if not hasattr(element, names.response_name):  # the response has only ids
            return not self._access.is_closed
        return allows(self._access, names.kind_of(element), getattr(element, names.response_name))

    def _complete_offsets(self, response: Message) -> None:
        answered = {
            one.group_id: one for one in response.groups if self._access.allows_group(one.group_id)
        }
        for group in answered.values():
            group.topics = [one for one in group.topics if self._access.allows(one.name)]
        for name, refused in self._refused_of_group.items():
            answered.setdefault(name, Message(group_id=name, topics=[])).topics += refused
        response.groups = [*answered.values(), *self._refused]

    def _hide_name(self, topic: Message) -> None:
        """A hidden topic that was requested by id gets the response for a missing topic."""
        is_hidden = topic.name is not None and not self._access.allows(topic.name)
        if is_hidden and topic.topic_id in self._asked_ids:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
            hidden = Message(name=None, topic_id=topic.topic_id, error_code=unknown)
            topic.__dict__.clear()
            topic.__dict__.update(hidden.__dict__)
