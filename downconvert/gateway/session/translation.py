"""Translates requests of versions that the cluster no longer takes.

Most versions differ only in their fields. So most requests are translated by reading one version
and writing another: fields that are missing get their defaults, and fields that only the client's
version has are dropped. Requests that need more are below, or in files of their own: Fetch
(fetching.py), Produce (producing.py), and Metadata, which is read in all versions (session.py)."""

from collections.abc import Callable
from typing import Final, TypeAlias

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message

from .exchanges import Ask, Asking

LATEST, EARLIEST = -1, -2  # as timestamps in ListOffsets
DEFAULT_CONFIG: Final = 5  # the source of a configuration's value, in DescribeConfigs from v1 on

Translate: TypeAlias = Callable[[Message, int], Asking]


def translate(api: ApiKey, body: Message, version: int, to_version: int) -> Asking:
    """Sends `body`, read in `version`, in `to_version`. Returns a response that can be written in
    `version`."""
    special = SPECIAL.get((api, version))
    if special is not None:
        return special(body, to_version)
    return _by_fields(api, body, to_version)


def _by_fields(api: ApiKey, body: Message, to_version: int) -> Asking:
    return (yield Ask(api, to_version, body))


def _list_offsets_v0(body: Message, to_version: int) -> Asking:
    """v0 asks for the base offsets of segments, which no later version returns.

    Here the response has the log's end and start. For a timestamp it has the offset of the first
    record that is not older, or the log's end if there is none. That is at or after the segment's
    base offset, so a client misses only records that are older than its timestamp."""
    response = yield Ask(ApiKey.ListOffsets, to_version, body)
    firsts = [one for topic in response.topics for one in topic.partitions]
    starts = yield Ask(ApiKey.ListOffsets, to_version, _at(EARLIEST, body))
    ends = Message(topics=[])
    if any(one.offset < 0 and not one.error_code for one in firsts):
        ends = yield Ask(ApiKey.ListOffsets, to_version, _at(LATEST, body))
    start_of, end_of, asked = _by_partition(starts), _by_partition(ends), _by_partition(body)
    for topic in response.topics:
        for one in topic.partitions:
            key = topic.name, one.partition_index
            found = [one if one.offset >= 0 else end_of.get(key), start_of.get(key)]
            one.old_style_offsets = []
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes = [missing if each is None else each.error_code for each in found]
            one.error_code = one.error_code or next(filter(None, codes), ErrorCode.NONE)
            if one.error_code or key not in asked:
                continue
            request = asked[key]
            newest, oldest = (each.offset for each in found if each is not None)
            offsets = {oldest} if request.timestamp == EARLIEST else {newest, oldest}
            limit = max(request.max_num_offsets, 0)
            one.old_style_offsets = sorted(offsets, reverse=True)[:limit]
    return response


def _by_partition(message: Message) -> dict[tuple[str, int], Message]:
    return {
        (topic.name, one.partition_index): one
        for topic in message.topics
        for one in topic.partitions
    }


def _at(timestamp: int, body: Message) -> Message:
    """The same question for another time."""
    topics = [
        Message(
            name=topic.name,
            partitions=[
                Message(partition_index=one.partition_index, timestamp=timestamp)
                for one in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    return Message(replica_id=-1, topics=topics)


def _describe_configs_v0(body: Message, to_version: int) -> Asking:
    """`is_default` became `config_source`."""
    response = yield Ask(ApiKey.DescribeConfigs, to_version, body)
    for result in response.results:
        for config in result.configs:
            config.is_default = config.config_source == DEFAULT_CONFIG
    return response


def _offset_fetch_v0(body: Message, to_version: int) -> Asking:
    """v0 read from ZooKeeper and returned an error for a partition without an offset. Old clients
    treat that error as "no offset yet", like offset -1 in v1."""
    response = yield Ask(ApiKey.OffsetFetch, to_version, body)
    for topic in response.topics:
        for one in topic.partitions:
            if one.committed_offset < 0 and not one.error_code:
                one.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return response


def _join_group_v0(body: Message, to_version: int) -> Asking:
    """v1 split the timeout into session and rebalance timeout."""
    body.rebalance_timeout_ms = body.session_timeout_ms
    return (yield Ask(ApiKey.JoinGroup, to_version, body))


SPECIAL: Final[dict[tuple[ApiKey, int], Translate]] = {
    (ApiKey.ListOffsets, 0): _list_offsets_v0,
    (ApiKey.JoinGroup, 0): _join_group_v0,
    (ApiKey.DescribeConfigs, 0): _describe_configs_v0,
    (ApiKey.OffsetFetch, 0): _offset_fetch_v0,
}
