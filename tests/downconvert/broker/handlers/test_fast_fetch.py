"""The fast path of Fetch answers as the handler, at once or later."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.access.rights import Access
from downconvert.broker import Broker, Client, Exchange
from downconvert.broker.handlers import fast_fetch
from downconvert.broker.handlers.apis import APIS
from downconvert.broker.handlers.fetch import Fetch
from downconvert.broker.operating.metrics import stats_of
from downconvert.protocol.errors import BadRequestError, ErrorCode
from downconvert.protocol.plain_values import Respond
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogConfig
from records import Codec
from tests.damage import damaged, mutated
from tests.downconvert.broker.asking import begin, frame, sent, someone
from tests.downconvert.broker.fetch.reading import markers, of, transaction
from tests.downconvert.broker.fetching import broker_of, fetched, records_of, request, whole_records
from tests.downconvert.broker.producing import batch as produced
from tests.downconvert.broker.producing import produce
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

from .both_ways import with_tags

VERSIONS = range(19)
OLD = range(4)
AT_ONCE = (*OLD, *range(10, 19))
SLOW = {key: replace(api, fast_path=None) for key, api in APIS.items()}
SMALL = 100  # bytes of a fetch that ends before the log does
END = 300


def logs(random: Random) -> dict[int, list[bytes]]:
    """Segments of some batches: compressed ones, markers, and offsets that were compacted."""
    segments: dict[int, list[bytes]] = {}
    end = 5
    while end < END:
        batches = segments[end] = []
        for _ in range(random.randrange(1, 8)):
            if random.random() < 0.2:
                batches.append(markers(2, end))
                end += 2
                continue
            offsets = [end + n for n in range(random.choice((1, 2, 20)))]
            if random.random() < 0.2:
                del offsets[1:-1]
            codec = random.choice((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD))
            batches.append(batch(*offsets, codec=codec))
            end = offsets[-1] + random.choice((1, 1, 1, 5))
    return segments


def asked(random: Random, broker: Broker) -> Message:
    topic = random.choice(["events"] * 9 + ["none"])
    body = request(
        broker,
        {topic: random.randrange(-1, END + 10)},
        random.choice((-1, 0, 1, SMALL, 300, 1000, 100_000)),
        min_bytes=random.choice((0, 1, 1, 300, 2000)),
        max_wait_ms=random.choice((0, 100)),
        isolation_level=random.choice((0, 0, 0, 1)),
        replica_id=random.choice((-1, -1, -1, 1)),
        session_epoch=random.choice((-1, -1, -1, 0)),
        current_leader_epoch=random.choice((-1, -1, -5, 0, 1)),
        last_fetched_epoch=random.choice((-1, -1, -1, 0)),
    )
    body.max_bytes = random.choice((-1, 0, 1, 500, 2**31 - 1))
    if random.random() < 0.1:
        body.topics *= 2  # the last one counts
    if random.random() < 0.1:
        body.topics += request(broker, {"other": 0}).topics
    return body


def responses(
    broker: Broker, data: bytes, client: Client, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """The client's responses with and without the fast path, with the figures that are noted about
    them. A request that waits is answered once its time is up."""
    found: list[Any] = []
    for is_fast in (True, False):
        with monkeypatch.context() as patch:
            if not is_fast:
                patch.setattr(broker, "apis", SLOW)
            try:
                exchange = broker.handle(client, memoryview(data), 0.0)
            except BadRequestError as error:
                found.append(str(error))
                continue
        is_done = exchange.is_done
        while not exchange.is_done:
            broker.tick(100.0)
        converted = [
            (topic, send.size, [part.records_converted for part in stats_of(send)])
            for topic, send in exchange.converted
        ]
        noted = dict(exchange.errors), converted, client.is_converting, is_done
        found.append((sent(exchange), *noted))
        client.is_converting = False
        broker.finished(exchange, 0.0)
    return found


def some_request(random: Random, broker: Broker, start: int = 0) -> bytes:
    body = asked(random, broker)
    if body.topics:
        body.topics[0].partitions[0].fetch_offset += start
    data = frame(ApiKey.Fetch, random.choice((*OLD, *OLD, *VERSIONS)), body)
    if random.random() < 0.1:
        data = with_tags(data, random)
    # A mutated one is still a fetch.
    return data[:2] + mutated(data[2:], random) if random.random() < 0.1 else data


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request that took the fast path was answered at once."""
    respond, found = fast_fetch.respond, list[bool]()

    def noted(version: int, level: int) -> Respond:
        found.append(True)
        return respond(version, level)

    class Noted(Fetch):
        def __init__(self, *arguments: Any) -> None:
            found.append(False)
            super().__init__(*arguments)

    monkeypatch.setattr(fast_fetch, "respond", noted)
    monkeypatch.setattr(fast_fetch, "Fetch", Noted)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_fetch_gets_the_same_bytes_in_both_ways(
    tmp_path: Path, seed: int, at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    topics = {"events": logs(random), "other": {0: [batch(0)]}}
    with broker_of(tmp_path, topics, fetch_max_bytes=random.choice((400, 10**6))) as broker:
        for number in range(400):
            data = some_request(random, broker)
            monkeypatch.setattr(broker.fetch_sessions, "create", lambda *_, **__: 7)
            both = responses(broker, data, someone(), monkeypatch)
            assert both[0] == both[1], f"request {number} of seed {seed}: {data!r}"
    assert sum(at_once) > 20
    assert at_once.count(False) > 50


def change(random: Random, broker: Broker) -> None:
    """Changes the log or the topic, as clients and the broker itself do."""
    if "events" not in broker.topics:
        broker.topics.create("events", 1, {}, 0)
    writer = of(broker).log.writer
    match random.randrange(100):
        case 0:
            writer.delete_records(random.randint(writer.start_offset, writer.end_offset))
        case 1:
            writer.truncate_to(random.randint(writer.start_offset, writer.end_offset))
        case 2:
            writer.roll()
        case 3:
            enabled = {"message.downconversion.enable": random.choice(("true", "false"))}
            broker.topics.configure("events", random.choice((enabled, {"compression.type": "lz4"})))
        case 4:
            broker.topics.delete("events")
        case 5 | 6 | 7 | 8 | 9:
            transaction(broker, random, ends=random.random() < 0.9)
        case number if number > 30:
            codec = random.choice((Codec.NONE, Codec.LZ4, Codec.ZSTD))
            produce(broker, 7, produced(random.choice((1, 2, 20)), codec=codec), topic="events")


@pytest.mark.parametrize("seed", range(8))
def test_committed_records_are_sent_at_once_unless_some_are_aborted(
    tmp_path: Path, seed: int, at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with writable_broker(tmp_path, "events") as broker:
        transaction(broker, Random(seed))
        fields = {"session_epoch": -1, "isolation_level": 1, "max_wait_ms": 100, "min_bytes": 1}
        body = request(broker, {"events": 0}, **fields)
        data = frame(ApiKey.Fetch, 12, body)
        both = responses(broker, data, someone(), monkeypatch)
        assert both[0] == both[1]
        aborted = of(broker).log.aborted(0, 3)
    assert at_once == [not aborted]


@pytest.mark.parametrize("seed", range(4))
def test_a_fetch_gets_the_same_bytes_after_each_change(
    tmp_path: Path, seed: int, at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    random, config = Random(seed), LogConfig(segment_bytes=1500, index_interval_bytes=0)
    with writable_broker(tmp_path, "other", log_config=config) as broker:
        monkeypatch.setattr(broker.fetch_sessions, "create", lambda *_, **__: 7)
        for number in range(400):
            change(random, broker)
            start = of(broker).start_offset if "events" in broker.topics else 0
            data = some_request(random, broker, start)
            both = responses(broker, data, someone(), monkeypatch)
            assert both[0] == both[1], f"request {number} of seed {seed}: {data!r}"
    assert sum(at_once) > 10


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with broker_of(tmp_path, {"events": {0: [batch(0, 1), batch(2)]}}) as made:
        look(made)
        yield made


def look(broker: Broker) -> None:
    """Another client has asked for the first records."""
    of(broker).offsets(0, 0.0, stable=False)


def fetch(
    broker: Broker, version: int, client: Client | None = None, size: int = SMALL
) -> Exchange:
    body = request(broker, {"events": 0}, size, session_epoch=-1)
    return begin(broker, ApiKey.Fetch, version, body, client=client)


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_without_records_that_they_do_not_know_are_answered_at_once(
    broker: Broker, version: int, at_once: list[bool]
) -> None:
    found = fetched(fetch(broker, version))
    assert whole_records(found)[0].offset == 0
    assert at_once == [version in AT_ONCE]


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_records_at_the_end_of_a_log_are_converted_for_all_who_ask(
    broker: Broker, version: int, at_once: list[bool], size: int
) -> None:
    assert len(records_of(fetched(fetch(broker, version, size=size)))) == 3
    assert not any(at_once)


def test_a_large_conversion_is_not_made_at_once(tmp_path: Path, at_once: list[bool]) -> None:
    """It takes long, so other requests have their turns."""
    one = batch(*range(100), size=700)
    with broker_of(tmp_path, {"events": {0: [one, batch(100)]}}) as broker:
        look(broker)
        exchange = fetch(broker, 3)
        while not exchange.is_done:
            broker.tick(1.0)
        assert fetched(exchange).records
        assert exchange.client.is_converting
    assert at_once == [False]


def test_a_batch_that_expands_is_not_converted_at_once(tmp_path: Path, at_once: list[bool]) -> None:
    one = batch(*range(10), size=30_000, codec=Codec.LZ4)
    policy = ConversionPolicy(recode={"lz4": "none"})
    with broker_of(tmp_path, {"events": {0: [one, batch(10)]}}, policy=policy) as broker:
        look(broker)
        exchange = fetch(broker, 3)
        assert len(fetched(exchange).records) > 300_000
        assert exchange.client.is_converting
    assert at_once == [False]


def test_a_policy_that_sends_compressed_batches_whole_is_obeyed(
    tmp_path: Path, at_once: list[bool]
) -> None:
    """Such a batch is left out if no record of it is asked for."""
    policy = ConversionPolicy(trim_compressed=False)
    with broker_of(tmp_path, {"events": {0: [batch(0), batch(1)]}}, policy=policy) as broker:
        look(broker)
        assert records_of(fetched(fetch(broker, 2)))
    assert at_once == [False]


def test_a_topic_whose_records_may_not_be_converted(broker: Broker, at_once: list[bool]) -> None:
    broker.topics["events"].may_convert = False
    assert fetched(fetch(broker, 2)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert at_once == [False]


@pytest.mark.parametrize(
    ("access", "code", "is_muted"),
    [
        (Access(consumer_byte_rate=0.1), 0, True),
        (Access(topics=("events",)), 0, False),
        (Access(topics=("others",)), ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_a_client_with_limits_keeps_them(
    broker: Broker, access: Access, code: int, is_muted: bool, at_once: list[bool]
) -> None:
    exchange = fetch(broker, 11, someone(access=access))
    assert (fetched(exchange).error_code, exchange.throttle > 0) == (code, is_muted)
    assert not any(at_once)


def test_a_client_with_rights_to_everything_is_answered_at_once(
    broker: Broker, at_once: list[bool]
) -> None:
    assert fetched(fetch(broker, 11, someone(access=Access()))).error_code == 0
    assert at_once == [True]


@pytest.mark.parametrize("version", [2, 10, 11])
def test_only_the_leader_answers_clients_that_know_no_followers(
    broker: Broker, version: int
) -> None:
    of(broker).leader = 5
    code = ErrorCode.NONE if version == 11 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(fetch(broker, version)).error_code == code


def test_the_last_stable_offset_is_that_of_the_oldest_open_transaction(
    tmp_path: Path, at_once: list[bool]
) -> None:
    options = {"producer_id": 3, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    batches = [batch(0, 1), batch(2, **options), batch(3)]
    with broker_of(tmp_path, {"events": {0: batches}}) as broker:
        look(broker)
        found = fetched(fetch(broker, 11))
    assert (found.last_stable_offset, found.high_watermark, at_once) == (2, 4, [True])


@pytest.mark.parametrize("version", [2, 11])
def test_a_fetch_at_the_end_looks_at_the_log_as_often_in_both_ways(
    broker: Broker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at the log of another process takes a dozen system calls."""
    log = of(broker).log
    looking, looks = log.look, list[bool]()

    def noted(*, stable: bool = False, again: bool = True) -> tuple[int, int, int]:
        looks.append(again)
        return looking(stable=stable, again=again)

    monkeypatch.setattr(log, "look", noted)
    body = request(broker, {"events": 3}, SMALL, session_epoch=-1, max_wait_ms=100, min_bytes=1)
    counts = []
    for is_fast in (True, False):
        if not is_fast:
            monkeypatch.setattr(broker, "apis", SLOW)
        for _ in range(2):
            looks.clear()
            exchange = begin(broker, ApiKey.Fetch, version, body)
            assert not exchange.is_done
            counts.append(looks.count(True))
            broker.finished(exchange, 0.0)
    assert len(set(counts)) == 1


def test_a_defect_in_reading_is_an_error_of_the_partition(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(of(broker), "read", fail)
    assert fetched(fetch(broker, 11)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_damaged_records_are_an_error_of_the_partition(tmp_path: Path, at_once: list[bool]) -> None:
    segments = {0: [batch(0), damaged(batch(1), field="magic", to=9, crc="fixed")], 9: [batch(9)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        look(broker)
        body = request(broker, {"events": 1}, session_epoch=-1)
        found = fetched(begin(broker, ApiKey.Fetch, 11, body))
    assert found.error_code == ErrorCode.CORRUPT_MESSAGE
    assert at_once == [False]


@pytest.mark.parametrize(
    ("fields", "is_fast"),
    [
        ({}, True),
        ({"isolation_level": 1}, True),
        ({"isolation_level": 2}, False),
        ({"replica_id": 1}, False),
        ({"session_epoch": 0}, False),
        ({"topics": []}, False),
    ],
)
def test_consumers_without_a_session_take_the_fast_path(
    broker: Broker, fields: dict[str, Any], is_fast: bool, at_once: list[bool]
) -> None:
    body = request(broker, {"events": 0}, SMALL, session_epoch=-1)
    exchange = begin(broker, ApiKey.Fetch, 11, Message(**vars(body) | fields))
    broker.finished(exchange, 0.0)
    assert (len(at_once) == 1) is is_fast
