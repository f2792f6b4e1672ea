"""Fetches that wait while other clients change what they wait for.

Topics are altered, written to, cut at their beginning, deleted and created again. A fetch that
waits is answered then, or when its time is over; both servers do the same.

Not here: fetches that are answered at once (operations.py)."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey, Message

from .block import Block, Difference
from .identities import KAFKA, OURS, SIDES
from .operations import Operation, creation
from .responses import Place
from .servers import PATIENCE, Pair
from .values import UNKNOWN_ID, Focus, Known
from .waits_may_differ import DELETED, EARLY

WAIT: Final = 1_500  # milliseconds
BEGUN: Final = 0.25  # seconds, in which fetches arrive, through a gateway, too
NOTICED: Final = 0.5  # seconds, in which both servers notice that a fetch is due
LOOK: Final = 0.02  # seconds between two looks
SPARE: Final = 0.3  # seconds between the last change and the end of the wait
IDS_SINCE: Final = 13  # the version of Fetch with topics' ids
MEBI: Final = 1 << 20
BATCH_MIN: Final = 65  # bytes; every batch of v2 with a record is larger, whoever compresses it
# Settings, and values between which they change.
CHANGES: Final = {
    "cleanup.policy": ("compact", "delete", "compact,delete"),
    "compression.type": ("gzip", "lz4", "producer"),
    # The lower limit fits a transaction's marker, and no compressed batch, whoever compresses it.
    "max.message.bytes": ("79", "1048588"),
    "message.downconversion.enable": ("false", "true"),
    "message.timestamp.type": ("LogAppendTime", "CreateTime"),
    "min.insync.replicas": ("2", "1"),
    "retention.ms": ("-1", "604800000"),
    "segment.bytes": (f"{2 * BATCH_MIN}", "1073741824"),  # at most one batch, or many
    "segment.ms": ("1", "604800000"),
}
SET, DELETE = 0, 1


def waiting_fetches(
    random: Random, known: Known, versions: range, ends: Mapping[str, list[int]], count: int
) -> list[Operation]:
    """Fetches by several clients. `ends`: the topics, and where their partitions end."""
    return [_fetch(random, known, random.choice(versions), ends) for _ in range(count)]


def _fetch(random: Random, known: Known, version: int, ends: Mapping[str, list[int]]) -> Operation:
    topics = []
    for topic in random.sample(sorted(ends), random.choice((1, 1, min(2, len(ends))))):
        indices = range(len(ends[topic]))
        chosen = sorted(random.sample(indices, random.randint(1, len(indices))))
        parts = [
            Message(
                partition=index,
                current_leader_epoch=random.choice((-1, -1, -1, 0)),
                fetch_offset=random.choice((ends[topic][index],) * 3 + (0, 1, 2)),
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=random.choice((MEBI, MEBI, BATCH_MIN, 1)),
            )
            for index in chosen
        ]
        id_ = known.topic_ids.get(topic, UNKNOWN_ID)
        topics.append(Message(topic=topic, topic_id=id_, partitions=parts))
    body = Message(
        replica_id=-1,
        max_wait_ms=WAIT,
        min_bytes=random.choice((1, 1, BATCH_MIN, 2_000, 2**31 - 1, 2**31 - 1)),
        max_bytes=random.choice((MEBI, MEBI, MEBI, BATCH_MIN, 1)),
        isolation_level=random.choice((0, 0, 1)),
        session_id=0,
        session_epoch=random.choice((-1, -1, 0)),
        topics=topics,
        forgotten_topics_data=[],
        rack_id="",
    )
    return Operation(ApiKey.Fetch, version, body, 0)


def changes(
    random: Random, known: Known, versions: Mapping[ApiKey, range], ends: Mapping[str, list[int]]
) -> list[Operation]:
    """The requests of another client meanwhile. Most of them are about one of the topics."""
    made: list[Operation] = []
    topic = random.choice(sorted(ends))
    for _ in range(random.choice((1, 2, 2, 3, 4))):
        made += _change(random, known, versions, topic, len(ends[topic]))
        if random.random() < 0.2:
            topic = random.choice(sorted(ends))
    return made


def _change(
    random: Random, known: Known, versions: Mapping[ApiKey, range], topic: str, partitions: int
) -> list[Operation]:
    def asked(api: ApiKey, **fields: Any) -> Operation:
        return Operation(api, random.choice(versions[api]), Message(**fields), 0)

    index = random.randrange(partitions)
    share = random.random()
    if share < 0.4 and versions.get(ApiKey.Produce):
        return [produce(random, known, versions[ApiKey.Produce], topic, index)]
    if share < 0.75 and versions.get(ApiKey.IncrementalAlterConfigs):
        name = random.choice(sorted(CHANGES))
        value = random.choice(CHANGES[name])
        kind = DELETE if random.random() < 0.2 else SET
        config = Message(name=name, config_operation=kind, value=value)
        resource = Message(resource_type=2, resource_name=topic, configs=[config])
        return [asked(ApiKey.IncrementalAlterConfigs, resources=[resource], validate_only=False)]
    if share < 0.9 and versions.get(ApiKey.DeleteRecords):
        cut = Message(partition_index=index, offset=random.choice((-1, 0, 1, 3)))
        named = Message(name=topic, partitions=[cut])
        return [asked(ApiKey.DeleteRecords, topics=[named], timeout_ms=10_000)]
    if not versions.get(ApiKey.DeleteTopics):
        return []
    fields = {"topics": [Message(name=topic, topic_id=bytes(16))], "topic_names": [topic]}
    made = [asked(ApiKey.DeleteTopics, timeout_ms=10_000, **fields)]
    if random.random() < 0.7:
        made.append(creation(topic, partitions))
        if versions.get(ApiKey.Produce):
            made.append(produce(random, known, versions[ApiKey.Produce], topic, 0))
    return made


def produce(random: Random, known: Known, versions: range, topic: str, index: int) -> Operation:
    """Records for one partition."""
    version = random.choice(versions)
    focus = Focus(random, known)
    focus.topic = topic
    focus.producer, focus.transactional_id = (-1, -1), None
    part = Message(index=index, records=focus.records(version))
    body = Message(
        transactional_id=None,
        acks=random.choice((-1, 1)),
        timeout_ms=10_000,
        topic_data=[Message(name=topic, partition_data=[part])],
    )
    return Operation(ApiKey.Produce, version, body, 0)


def ends_of(block: Block) -> dict[str, list[int]]:
    """The topics of the block that are there, and where their partitions end."""
    topics = [Message(name=name) for name in block.known.topics()]
    there = block.servers.ask(KAFKA, ApiKey.Metadata, 9, Message(topics=topics)).topics
    asked = [
        Message(
            name=one.name,
            partitions=[
                Message(partition_index=index, timestamp=-1, current_leader_epoch=-1)
                for index in range(len(one.partitions))
            ],
        )
        for one in there
        if not one.error_code
    ]
    body = Message(replica_id=-1, isolation_level=0, topics=asked)
    found = block.servers.ask(KAFKA, ApiKey.ListOffsets, 5, body).topics
    return {
        one.name: [
            each.offset for each in sorted(one.partitions, key=lambda each: each.partition_index)
        ]
        for one in found
    }


def ask_waiting(
    block: Block,
    clients: list[Pair],
    number: int,
    fetches: list[Operation],
    made: list[Operation],
) -> Iterator[Difference]:
    """Fetches by all clients but the last, and meanwhile the changes by the last one."""
    *waiting, changing = clients
    held = list(zip(waiting, fetches, strict=False))
    began = time.monotonic()
    for pair, fetch in held:
        pair.is_held = True
        pair.send(fetch, [block.identities.render(fetch.body, side) for side in SIDES])
    time.sleep(BEGUN)
    uneven: dict[Pair, list[bool]] = {}  # answered by one server, after the same changes
    _let_answer(held, uneven)
    for one in made:
        for difference in block.ask(changing, number, one):
            block.is_in_step = False
            yield difference
        if not block.is_in_step:
            break
        _let_answer(held, uneven)
    early = [uneven.get(pair, pair.hear(0.0)) for pair, _ in held]
    # A wait that ended before the last change says nothing.
    is_clear = time.monotonic() - began < WAIT / 1000 - SPARE and block.is_in_step
    for (pair, fetch), answered in zip(held, early, strict=True):
        pair.is_held = False
        come = pair.hear(PATIENCE)
        if come != [True, True]:
            yield Difference(block.known.block, number, fetch, "answered", come[0], come[1])
            pair.reconnect()
            continue
        is_even = answered[KAFKA] == answered[OURS]
        if is_clear and not is_even:
            apis = {"meanwhile": {one.api for one in made}}
            place = Place(EARLY, answered[KAFKA], answered[OURS], (apis, apis))
            if not block.may_differ(fetch, place):
                theirs, own = answered
                found = Difference(block.known.block, number, fetch, EARLY, theirs, own)
                yield replace(found, meanwhile=tuple(made))
        if not is_clear or not is_even:
            pair.reconnect()
        else:
            loses_topic = _loses_topic(fetch, made)
            for found in block.compare_heard(pair, number, fetch):
                place = Place(DELETED, found.kafka, found.ours, ({}, {}))
                if not loses_topic or not block.may_differ(fetch, place):
                    yield replace(found, meanwhile=tuple(made))


def _let_answer(held: list[tuple[Pair, Operation]], uneven: dict[Pair, list[bool]]) -> None:
    """Fetches that a change completes are answered before the next change, by both servers. Notes
    those that only one server has answered."""
    until = time.monotonic() + NOTICED
    while True:
        time.sleep(LOOK)
        heard = {pair: pair.hear(0.0) for pair, _ in held if pair not in uneven}
        found = {pair: one for pair, one in heard.items() if one[KAFKA] != one[OURS]}
        if not found or time.monotonic() > until:
            uneven.update(found)
            return


def _loses_topic(fetch: Operation, made: list[Operation]) -> bool:
    """Whether a topic of the fetch is deleted."""
    deletions = [one.body.topic_names for one in made if one.api is ApiKey.DeleteTopics]
    names = {name for one in deletions for name in one}
    return any(topic.topic in names for topic in fetch.body.topics)
