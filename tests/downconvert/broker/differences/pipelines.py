"""Pipelined requests: a client sends several before it reads the first response.

A server answers them one after another, each with its correlation id. It does not handle the
requests after one that ends the connection.

Not here: one request at a time (block.py)."""

import time
from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import CORRELATION_ID, LENGTH_SIZE, frame
from tests.downconvert.broker.talking import API_VERSIONS, Talk

from .block import BUSY, READING, Block, Difference, may_be_asked_again
from .connections_may_differ import RESET
from .envelope import framed
from .identities import KAFKA, OURS, SIDES
from .operations import Operation, operation
from .responses import Place
from .servers import Pair, read
from .values import Known

# Requests that do all that they do before they are answered. Those that others must follow, and
# those that wait for other clients, are sent alone.
APIS: Final = (
    ApiKey.Produce,
    ApiKey.Fetch,
    ApiKey.ListOffsets,
    ApiKey.Metadata,
    ApiKey.OffsetCommit,
    ApiKey.OffsetFetch,
    ApiKey.FindCoordinator,
    ApiKey.Heartbeat,
    ApiKey.LeaveGroup,
    ApiKey.DescribeGroups,
    ApiKey.ListGroups,
    ApiKey.OffsetDelete,
    ApiKey.OffsetForLeaderEpoch,
    ApiKey.AddPartitionsToTxn,
    ApiKey.TxnOffsetCommit,
    ApiKey.DescribeConfigs,
    ApiKey.DescribeCluster,
    ApiKey.DescribeProducers,
    ApiKey.DescribeTransactions,
    ApiKey.ApiVersions,
    ApiKey.SaslHandshake,
    ApiKey.SaslAuthenticate,
)
LAST: Final = (ApiKey.EndTxn, ApiKey.InitProducerId)  # Kafka completes them after the response
SIZES: Final = (2, 3, 3, 4, 5, 8, 16)
FIRST_ID: Final = 1_000  # of correlation ids
CORRELATION_AT: Final = 4  # bytes, in a request without its length, and in a response with it
ID_SIZE: Final = 4
GAP: Final = 0.005  # seconds between two parts of the bytes


def pipeline(random: Random, known: Known, versions: Mapping[ApiKey, range]) -> list[Operation]:
    """The next requests of one client."""
    served = {api: versions[api] for api in APIS if api in versions}
    count = random.choice(SIZES)
    made = [operation(random, known, served) for _ in range(count)]
    last = {api: versions[api] for api in LAST if versions.get(api)}
    if last and random.random() < 0.3:
        made.append(operation(random, known, last))
    return made


def ask_pipelined(
    block: Block, pair: Pair, number: int, asked: list[Operation], random: Random
) -> Iterator[Difference]:
    """Sends them to both servers, and compares the responses one by one."""
    sent = [b"".join(_frames(block, side, asked)) for side in SIDES]
    cut = random.random() if random.random() < 0.3 else 1.0
    for side in SIDES:
        _send(pair.talks[side], sent[side], int(len(sent[side]) * cut))
    answers = [_answers(pair.talks[side], FIRST_ID + len(asked)) for side in SIDES]
    has_ended = [not frames or _id(frames[-1]) != FIRST_ID + len(asked) for frames in answers]
    if any(has_ended):
        pair.reconnect()
    at = [0, 0]  # of the next response
    for place, one in enumerate(asked):
        is_over = [at[side] >= len(answers[side]) for side in SIDES]
        if is_over == [True, False] and all(has_ended):
            block.is_in_step = False
            theirs, own = ([_id(each) for each in frames] for frames in answers)
            if not block.may_differ(one, Place(RESET, theirs, own, ({}, {}))):
                yield Difference(block.known.block, number, one, RESET, theirs, own)
            return
        if any(is_over):
            yield from _ended(block, number, asked, place, is_over)
            block.is_in_step = block.is_in_step and all(is_over)
            return
        responses = []
        for side in SIDES:
            if one.is_unanswered:
                responses.append(Message())
                continue
            response = answers[side][at[side]]
            at[side] += 1
            if _id(response) != FIRST_ID + place:
                block.is_in_step = False
                theirs, own = ([_id(each) for each in frames] for frames in answers)
                path = "correlation ids"
                yield Difference(block.known.block, number, one, path, theirs, own)
                return
            responses.append(read(one, _numbered(response, CORRELATION_ID)))
        found = list(block.compare(number, one, (responses[KAFKA], responses[OURS])))
        if found and one.api in READING and may_be_asked_again(one) and not any(has_ended):
            found = list(block.ask(pair, number, one))  # what Kafka does behind a response
        if any(str(each.kafka) in BUSY for each in found):
            block.is_in_step, found = False, []
        yield from found
        if not block.is_in_step:
            return
    for one in asked:
        yield from block.settle(number, one)


def _ended(
    block: Block, number: int, asked: list[Operation], place: int, is_over: list[bool]
) -> Iterator[Difference]:
    """One server has ended the connection, or both: by one of the requests without a response, or
    by the first that has one."""
    found: list[Difference] = []
    for one in asked[place:]:
        ends: list[Message | None] = [None if over else Message() for over in is_over]
        found = list(block.compare(number, one, (ends[KAFKA], ends[OURS])))
        if not found and not all(is_over):
            return  # it may
        if not one.is_unanswered:
            break
    yield from found


def _frames(block: Block, side: int, asked: list[Operation]) -> Iterator[bytes]:
    """The requests with their lengths, and one more that is always answered."""
    made = []
    for one in asked:
        body = block.identities.render(one.body, side)
        made.append(framed(one.envelope, one.api, one.version, body))
    made.append(frame(*API_VERSIONS))
    for place, data in enumerate(made):
        if len(data) >= CORRELATION_AT + ID_SIZE:
            data = _numbered(data, FIRST_ID + place)
        yield len(data).to_bytes(LENGTH_SIZE) + data


def _numbered(data: bytes, number: int) -> bytes:
    return data[:CORRELATION_AT] + number.to_bytes(ID_SIZE) + data[CORRELATION_AT + ID_SIZE :]


def _id(response: bytes) -> int:
    return int.from_bytes(response[CORRELATION_AT : CORRELATION_AT + ID_SIZE])


def _send(talk: Talk, data: bytes, cut: int) -> None:
    try:
        talk.socket.sendall(data[:cut])
        if cut < len(data):
            time.sleep(GAP)
            talk.socket.sendall(data[cut:])
    except OSError:
        pass  # the server has ended the connection


def _answers(talk: Talk, last: int) -> list[bytes]:
    """The responses up to that with the id `last`, or to the end of the connection. TimeoutError:
    neither comes."""
    found: list[bytes] = []
    try:
        while not found or _id(found[-1]) != last:
            found.append(talk.receive())
    except TimeoutError:
        raise
    except (AssertionError, OSError):
        pass
    return found
