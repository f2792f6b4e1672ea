"""Fetch v0-v3: fetches in a version that the cluster takes, and responses in message format v0 or
v1.

The cluster answers with the batches on its disks. Some ranges convert to nothing: markers, batches
emptied by compaction, records below the fetch offset. After an empty response, an old client would
fetch the same offset for ever. So the gateway reads on until there is a record or the log ends. It
also reads on after a short range: a broker's response ends with the segment, and some old clients
cannot skip an offset gap that compaction has left between two segments.

Brokers return a batch larger than its limit for the first partition of a request only. Old clients
do not rotate their partitions, so the gateway asks for such a partition again, alone."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from downconvert import AbortedTransaction, ConversionPolicy
from downconvert.conversion.policy import RESPONSE_SIZE_MAX
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import (
    FIRST_BATCH_WHOLE_SINCE,
    TOPIC_IDS_SINCE,
    known_code,
    magic_of,
)
from downconvert.protocol.joined_send import JoinedSend
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.fetch_assembly import error_code_of, may_join_next
from records import FileRecords, MemoryRecords, RecordsError
from records.files.sends import Send
from records.units import MiB

from .exchanges import Ask, Asking, Turn
from .turns import COMMITTED, Converted, Parts

WITH_NAMES: Final = TOPIC_IDS_SINCE - 1  # the newest version with topic names instead of ids
NO_SESSION: Final = -1
RESPONSE_MAX: Final = 57_671_680  # bytes of records in a response: Kafka's fetch.max.bytes
CONVERTED_MAX: Final = RESPONSE_SIZE_MAX - 64 * MiB  # of a response; the rest is for other fields

Spooled: TypeAlias = FileRecords | MemoryRecords
PolicyOf: TypeAlias = Callable[[str], ConversionPolicy]  # by the topic's name


class State(NamedTuple):
    """How far a partition has come."""

    offset: int
    is_done: bool
    used: int  # bytes of the log, if the client gets records


@dataclass(slots=True)
class Found:
    """The state and the result of one partition of a fetch."""

    topic: str
    version: int  # of the client's fetch
    request: Message  # of the partition
    offset: int  # the next offset to read
    last_response: Message | None = None  # of the cluster
    sends: list[Send] = field(default_factory=list)  # converted records
    used: int = 0  # bytes of the log that they come from
    code: int = ErrorCode.NONE
    is_done: bool = False

    def take(
        self,
        response: Message,
        policy: ConversionPolicy,
        room: int,
        *,
        alone: bool,
    ) -> Generator[Turn, None, None]:
        """Converts the records of the cluster's response, and decides whether to ask for more.
        `room`: converted bytes that the client's response may still get."""
        # The gateway chose this offset, not the client: the log was truncated meanwhile.
        is_truncated = self.has_advanced and response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        if is_truncated or (self.sends and response.error_code):
            self.is_done = True  # if the error lasts, the client gets it with its next fetch
            return
        self.last_response, self.code = response, known_code(response.error_code, self.version)
        records: Spooled | None = response.records
        bound = response.high_watermark
        aborted: list[AbortedTransaction] = []
        if policy.isolation == COMMITTED:
            bound = min(bound, response.last_stable_offset)
            aborted = _aborted(response)
        if self.code or records is None or not records.size:
            self.is_done = bool(self.code or self.sends) or alone or self.offset >= bound
            return
        if room <= 0 or (self.sends and records.size > self.room):
            self.is_done = True
            return
        converted = Converted(is_first=not self.sends)
        try:
            parts = Parts(records, self.offset)
            magic = magic_of(self.version)
            limit = room
            if self.version < FIRST_BATCH_WHOLE_SINCE:
                limit = min(limit, self.request.partition_max_bytes - self.size)
            assert magic is not None, "a client that reads what is on disk"
            yield from converted.convert(parts, magic, self.offset, policy, aborted, limit)
            if room < CONVERTED_MAX and sum(send.size for send in converted.sends) > room:
                self.is_done = True  # its first message does not fit
                return
            self.used += records.size
            self.sends += converted.sends
            if self.sends and not (converted.is_whole and may_join_next(self.used, self.room)):
                self.is_done = True
                return
            following = parts.following
        except RecordsError as error:
            self.code = ErrorCode.NONE if self.sends else error_code_of(error)
            self.is_done = True
            return
        if self.sends:
            self.is_done = not self.offset < following < bound
        elif following == self.offset:  # no whole batch
            self.is_done = alone
        else:
            self.is_done = following >= bound
        self.offset = following

    @property
    def state(self) -> State:
        return State(self.offset, self.is_done, self.used if self.sends else 0)

    @property
    def has_advanced(self) -> bool:
        """Whether reading has advanced beyond the client's offset."""
        asked: int = self.request.fetch_offset
        return self.offset > asked

    @property
    def size(self) -> int:
        """Bytes of converted records."""
        return sum(send.size for send in self.sends)

    @property
    def room(self) -> int:
        """Bytes of the log that still fit."""
        limit: int = self.request.partition_max_bytes
        return limit - self.used if self.sends else limit

    def response(self) -> Message:
        """The partition's response to the client. Records are never null: some clients cannot parse
        null."""
        last = self.last_response
        return Message(
            partition_index=self.request.partition,
            error_code=self.code,
            high_watermark=-1 if last is None else last.high_watermark,
            records=JoinedSend(self.sends) if self.sends else b"",
        )


def can_serve(version: int, served: range) -> bool:
    """Whether a fetch can be translated for a cluster that serves these versions."""
    return magic_of(version) is not None and min(WITH_NAMES, served.stop - 1) in served


def fetch(body: Message, version: int, served: range, policy_of: PolicyOf) -> Asking:
    """Asks the cluster until every partition has a record or an error, or has reached its end.
    Returns the client's response.

    `served`: the cluster's versions."""
    to_version = min(served.stop - 1, WITH_NAMES)
    found = {
        (topic.topic, one.partition): Found(topic.topic, version, one, one.fetch_offset)
        for topic in body.topics
        for one in topic.partitions
    }
    throttle = size = used = 0  # bytes of converted records, and of the log
    left = asked = list(found.values())
    wait = body.max_wait_ms, body.min_bytes
    may_wait = True
    while asked:
        before = [one.state for one in asked]
        most = min(body.max_bytes - used, RESPONSE_MAX)
        response = yield Ask(ApiKey.Fetch, to_version, _request(asked, wait, most, policy_of))
        throttle = max(throttle, response.throttle_time_ms)
        answered = {
            (topic.topic, one.partition_index): one
            for topic in response.responses
            for one in topic.partitions
        }
        for one in asked:
            part = answered.get((one.topic, one.request.partition))
            if response.error_code or part is None:
                if not one.sends:
                    code = known_code(response.error_code, version)
                    one.code = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                one.is_done = True
            else:
                room, alone, known = CONVERTED_MAX - size, len(asked) == 1, one.size
                yield from one.take(part, policy_of(one.topic), room, alone=alone)
                size += one.size - known
        advanced = sum(one.state != former for one, former in zip(asked, before, strict=True))
        left = [one for one in asked if not one.is_done] + left[len(asked) :]
        used += sum(one.state.used - former.used for one, former in zip(asked, before, strict=True))
        if used >= max(body.max_bytes, 1):
            break
        wait = 0, 0  # only the first request may wait
        if left:
            # If no partition got anything, ask for the first one alone: then it gets even a large
            # batch. If few did, the others' batches are too large for one response of all: a
            # request for all of them, for each of them, would cost the square of their number.
            asked = left[: max(2 * advanced, 1)]
        elif may_wait and _has_only_skipped(found.values()):
            # All records converted to nothing. An empty response without a wait would make the
            # client ask again at once.
            wait, may_wait = (body.max_wait_ms, body.min_bytes), False
            left = asked = list(found.values())
            for one in asked:
                one.is_done = False
        else:
            asked = []
    return Message(throttle_time_ms=throttle, responses=_responses(found.values()))


def _has_only_skipped(found: Iterable[Found]) -> bool:
    """Whether there were batches, and all of them converted to nothing."""
    return all(not one.code and not one.sends for one in found) and any(
        one.has_advanced for one in found
    )


def _request(
    asked: Iterable[Found], wait: tuple[int, int], size_max: int, policy_of: PolicyOf
) -> Message:
    topics: dict[str, Message] = {}
    for one in asked:
        topic = topics.setdefault(one.topic, Message(topic=one.topic, partitions=[]))
        topic.partitions.append(
            Message(
                partition=one.request.partition,
                fetch_offset=one.offset,
                partition_max_bytes=one.room,
            )
        )
    return Message(
        replica_id=-1,
        max_wait_ms=wait[0],
        min_bytes=wait[1],
        max_bytes=size_max,
        isolation_level=int(any(policy_of(name).isolation == COMMITTED for name in topics)),
        session_epoch=NO_SESSION,
        topics=list(topics.values()),
    )


def _responses(found: Iterable[Found]) -> list[Message]:
    partitions: dict[str, list[Message]] = {}
    for one in found:
        partitions.setdefault(one.topic, []).append(one.response())
    return [Message(topic=topic, partitions=ones) for topic, ones in partitions.items()]


def _aborted(response: Message) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(one.producer_id, one.first_offset)
        for one in response.aborted_transactions or ()
    ]
