"""Fetch v4-v9: clients that read format v2, and are older than zstd.

A cluster may send zstd batches to such clients, or error 76 if the topic's codec is zstd. So the
gateway fetches in a version that returns any codec, and sends zstd batches in another codec. Order,
offsets and transactions stay unchanged.

Such clients get no fetch sessions. The response says so, and the client then names all partitions
each time.

Not here: clients of older formats (fetching.py), the recoding
(downconvert/conversion/recode.py)."""

from collections.abc import Generator
from typing import Final

from downconvert import LazyRecodedRecords
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import (
    AS_ON_DISK_SINCE,
    SESSIONS_SINCE,
    ZSTD_SINCE,
    known_code,
)
from downconvert.protocol.joined_send import JoinedSend
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.conversions import zstd_recode
from downconvert.serving.fetch_assembly import error_code_of, first_visible
from records import Codec, FileRecords, RecordsError
from records.files.sends import Send

from .exchanges import TURN, Ask, Asking, Turn
from .fetching import CONVERTED_MAX, NO_SESSION, RESPONSE_MAX, WITH_NAMES, PolicyOf, Spooled
from .turns import Parts, in_turns

CODEC: Final = "zstd"
LOST_SESSION: Final = Message(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])


def can_serve(version: int, served: range) -> bool:
    """Whether this version of Fetch is older than zstd, and the cluster serves one that is not."""
    return AS_ON_DISK_SINCE <= version < ZSTD_SINCE and _to_version(served) >= ZSTD_SINCE


def fetch(body: Message, version: int, served: range, policy_of: PolicyOf) -> Asking:
    """The client's response. `served`: the cluster's versions."""
    if not _leaves_session(body, version):
        return LOST_SESSION
    body.max_bytes = min(body.max_bytes, RESPONSE_MAX)
    response = yield Ask(ApiKey.Fetch, _to_version(served), body)
    yield from _read_on(response, body, served)
    room = CONVERTED_MAX
    for topic in response.responses:
        recode = zstd_recode(policy_of(topic.topic), may_convert=True)
        for one in topic.partitions:
            one.error_code = known_code(one.error_code, version)
            try:
                one.records = sent = yield from _readable(one.records, recode[CODEC], room)
                room -= len(sent) if isinstance(sent, bytes | memoryview) else sent.size
            except RecordsError as error:
                one.error_code, one.records = error_code_of(error), b""
    response.session_id = 0
    return response


def as_it_is(body: Message, version: int) -> Asking:
    """The client's response, with unchanged records and without a session. With sessions, a client
    could continue that of another client, and read topics that its own request does not name."""
    if not _leaves_session(body, version):
        return LOST_SESSION
    response = yield Ask(ApiKey.Fetch, version, body)
    for topic in response.responses:
        for one in topic.partitions:
            one.records = _sendable(one.records)
    response.session_id = 0
    return response


def _leaves_session(body: Message, version: int) -> bool:
    """Makes the fetch a full one without a session. Returns False if it is incremental: its session
    began before the gateway read this client's fetches, or belongs to another client. The caller's
    error makes the client begin a new session."""
    if version >= SESSIONS_SINCE and body.session_id and body.session_epoch > 0:
        return False
    body.session_id, body.session_epoch, body.forgotten_topics_data = 0, NO_SESSION, []
    return True


def _read_on(
    response: Message, body: Message, served: range
) -> Generator[Ask | Turn, Message, None]:
    """If a partition's batches have no record for the client, replaces them by the following
    batches."""
    asked = {(topic.topic, one.partition): one for topic in body.topics for one in topic.partitions}
    parts = [(topic.topic, one) for topic in response.responses for one in topic.partitions]
    for name, part in parts:
        request = asked.get((name, part.partition_index))
        while request is not None and part.records is not None and part.records.size:
            is_committed = bool(body.isolation_level)
            bound = part.last_stable_offset if is_committed else part.high_watermark
            yield TURN
            try:
                first = first_visible(
                    part.records, request.fetch_offset, wants_markers=is_committed
                )
            except RecordsError:
                break  # the client gets the damaged batch
            if first.header is not None:
                begins = first.header.position
                part.records = part.records.slice(begins, part.records.size - begins)
                break
            if first.end is None or not request.fetch_offset < first.end < bound:
                break
            request.fetch_offset = first.end
            alone = Message(topic=name, partitions=[request])
            again = Message(**{**body.__dict__, "topics": [alone], "max_wait_ms": 0})
            more = yield Ask(ApiKey.Fetch, _to_version(served), again)
            found = [one for topic in more.responses for one in topic.partitions]
            if more.error_code or len(found) != 1 or found[0].error_code:
                break  # the client gets the error with its next fetch
            if found[0].records is None or not found[0].records.size:
                break  # the client needs these batches to move on to the log's end
            part.__dict__.update(found[0].__dict__)


def _readable(
    records: Spooled | None, target_codec: str, room: int
) -> Generator[Turn, None, Send | bytes | memoryview]:
    """The records, with another codec in place of zstd. `room`: bytes that the response may still
    get; its first part is sent in any case. RecordsError: damage or a refusal comes before the
    first good record."""
    if records is None or not records.size:
        return b""
    if not _may_have_zstd(records):
        return _sendable(records)
    sends: list[Send] = []
    for part in Parts(records, 0).cut():
        try:
            recoded = yield from in_turns(LazyRecodedRecords.in_steps(part, {CODEC: target_codec}))
        except RecordsError:
            if not sends:
                raise
            break
        if recoded.size > room < CONVERTED_MAX:
            break
        room -= recoded.size
        sends.append(recoded.to_send())
        if recoded.damage is not None or recoded.is_cut:
            break
    return JoinedSend(sends)


def _may_have_zstd(records: Spooled) -> bool:
    """Whether any batch may have zstd. True if there is damage: `Parts` then finds the batches
    before it."""
    try:
        return any(header.codec is Codec.ZSTD for header in records.batches())
    except RecordsError:
        return True


def _sendable(records: Spooled | None) -> Send | bytes | memoryview:
    if records is None or not records.size:
        return b""
    return records.to_send() if isinstance(records, FileRecords) else records.view


def _to_version(served: range) -> int:
    newest = min(WITH_NAMES, served.stop - 1)
    return newest if newest in served else -1
