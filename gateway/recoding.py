"""Fetch v4-v9: clients that read format v2, and came before zstd did.

A cluster gives them zstd all the same, or refuses (error 76) where the topic's own codec is zstd.
So the cluster is asked in a version that gets whatever is there, and a zstd batch goes out in
another codec. Everything else stays as it is: order, offsets, transactions.

Sessions of incremental fetches are not kept: a client that is told of none asks for everything each
time, which no client minds.

Not here: clients of older formats (fetching.py), the recoding (downconvert/recode.py)."""

from typing import Final

from broker.conversions import AS_ON_DISK_SINCE, ZSTD_SINCE, zstd_recode
from broker.encoder import Sendable
from broker.errors import ErrorCode
from broker.schemas import ApiKey, Message
from downconvert import LazyRecodedRecords
from gateway.exchanges import Ask, Asking
from gateway.fetching import ANSWER_MAX, NO_SESSION, WITH_NAMES, PolicyOf, Spooled, code_of
from records import Codec, FileRecords, RecordsError

FIRST_WITH_SESSIONS: Final = 7
CODEC: Final = "zstd"


def can_serve(version: int, served: range) -> bool:
    """Whether this version's clients do not know zstd, and the cluster can be asked instead."""
    return AS_ON_DISK_SINCE <= version < ZSTD_SINCE and _to_version(served) >= ZSTD_SINCE


def fetch(body: Message, version: int, served: range, policy_of: PolicyOf) -> Asking:
    """The client's answer. `served`: the cluster's versions."""
    if version >= FIRST_WITH_SESSIONS and body.session_id and body.session_epoch > 0:
        # Of a time when its fetches passed through; it begins anew when it hears this.
        return Message(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    body.max_bytes = min(body.max_bytes, ANSWER_MAX)
    body.session_id, body.session_epoch, body.forgotten_topics_data = 0, NO_SESSION, []
    answer = yield Ask(ApiKey.Fetch, _to_version(served), body)
    for topic in answer.responses:
        recode = zstd_recode(policy_of(topic.topic), may_convert=True)
        for one in topic.partitions:
            try:
                one.records = _readable(one.records, recode[CODEC])
            except RecordsError as error:
                one.error_code, one.records = code_of(error), b""
    answer.session_id = 0
    return answer


def _readable(records: Spooled | None, instead: str) -> Sendable | bytes | memoryview:
    """As they are, or with another codec in place of zstd. RecordsError: they cannot be had."""
    if records is None or not records.size:
        return b""
    if any(header.codec is Codec.ZSTD for header in records.batches()):
        return LazyRecodedRecords(records, {CODEC: instead}).to_send()
    return records.to_send() if isinstance(records, FileRecords) else records.view


def _to_version(served: range) -> int:
    newest = min(WITH_NAMES, served.stop - 1)
    return newest if newest in served else -1
