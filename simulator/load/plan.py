"""Plans the requests of each client, and the responses that it must get.

A client's next request begins after the last record that it read, so it depends on the previous
response. Therefore each response is made once before the measurement, by a broker without sockets.
It is read as by a client of that version, and compared with an eager conversion of the same log."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from downconvert.broker import Broker, BrokerConfig, Client
from downconvert.conversion.eager import eager
from downconvert.conversion.policies import parse_policy
from downconvert.protocol.decoder import Cursor, decode, reader
from downconvert.protocol.encoder import encode
from downconvert.protocol.fetch_versions import magic_of
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from downconvert.storage import LogDir
from simulator.children import SimulationError
from simulator.collector import Collector
from simulator.delivered import delivered

from .options import LoadOptions
from .steps import LENGTH_SIZE, Step, new_digest
from .topic import TOPIC

CLIENT_ID: Final = "simulated"
CORRELATION_ID: Final = 1
NO_LIMIT: Final = 2**31 - 1
MAX_WAIT_MS: Final = 500  # a consumer's default; every response here has records at once

Progress = Callable[[int], None]


def config_of(options: LoadOptions) -> BrokerConfig:
    """The configuration of a simulated broker: a response is as large as its request allows."""
    return BrokerConfig(policy=parse_policy(options.policy), fetch_max_bytes=NO_LIMIT)


def shares(options: LoadOptions) -> list[tuple[int, ...]]:
    """The partitions in one request, share by share."""
    starts = range(0, options.partitions, options.per_fetch)
    return [
        tuple(range(start, min(start + options.per_fetch, options.partitions))) for start in starts
    ]


def used_shares(options: LoadOptions) -> dict[int, int]:
    """By version of Fetch, the number of shares that are read with it. Client n of a kind reads
    share n modulo the number of shares."""
    used: dict[int, int] = {}
    count = len(shares(options))
    for group in options.clients:
        for mode in options.modes:
            version = group.version_in(mode)
            used[version] = max(used.get(version, 0), min(group.count, count))
    return used


def make_scans(
    directory: Path, options: LoadOptions, progress: Progress = lambda _: None
) -> dict[tuple[int, int], list[Step]]:
    """Every client's scan. `progress` is called with the number of scans made so far.

    SimulationError: a response is wrong."""
    used = used_shares(options)
    scans: dict[tuple[int, int], list[Step]] = {}
    with LogDir.open(directory) as log_dir:
        broker = Broker(log_dir, config_of(options))
        of_shares = shares(options)
        for version, count in used.items():
            for share in range(count):
                scan = _scan(broker, version, of_shares[share], options.max_bytes)
                scans[version, share] = list(scan)
                progress(len(scans))
    return scans


def _scan(broker: Broker, version: int, share: Sequence[int], max_bytes: int) -> Iterator[Step]:
    offsets = dict.fromkeys(share, 0)
    while offsets:
        request = _request(version, offsets, max_bytes)
        response = _ask(broker, request)
        read = 0
        for partition in _partitions(version, response):
            index, first_offset = partition.partition_index, offsets[partition.partition_index]
            if partition.error_code:
                raise SimulationError(f"Fetch v{version} got error {partition.error_code}")
            _compare(broker, version, index, first_offset, max_bytes, partition.records)
            count, last_offset = delivered(partition.records, first_offset)
            if not count:
                continue  # other partitions have filled the response
            read += count
            offsets[index] = last_offset + 1
            if last_offset + 1 >= partition.high_watermark:
                del offsets[index]
        if not read:
            raise SimulationError(f"Fetch v{version} got no record at offsets {offsets}")
        digest = new_digest()
        digest.update(memoryview(response)[LENGTH_SIZE:])
        yield Step(request, len(response), digest.digest(), read)


def _request(version: int, offsets: Mapping[int, int], max_bytes: int) -> bytes:
    """The frame of a fetch."""
    header = Message(
        request_api_key=ApiKey.Fetch,
        request_api_version=version,
        correlation_id=CORRELATION_ID,
        client_id=CLIENT_ID,
    )
    partitions = [
        Message(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        for index, offset in offsets.items()
    ]
    topics = [Message(topic=TOPIC, partitions=partitions)]
    body = Message(max_wait_ms=MAX_WAIT_MS, min_bytes=1, topics=topics)
    frame = encode("RequestHeader", 2 if is_flexible(ApiKey.Fetch, version) else 1, header)
    frame += encode("FetchRequest", version, body)
    return len(frame).to_bytes(LENGTH_SIZE) + frame


def _ask(broker: Broker, request: bytes) -> bytearray:
    """The response's frame. Time jumps from one deadline of the broker to the next."""
    frame = memoryview(request)[LENGTH_SIZE:]
    now = 0.0
    exchange = broker.handle(Client(1, "127.0.0.1"), frame, now)
    while not exchange.is_done and (turn := broker.tick(now)) is not None:
        now = turn
    assert exchange.send is not None, "a fetch is always answered"
    channel = Collector()
    while not exchange.send.completed:
        exchange.send.write_to(channel)
    return channel.data


def _partitions(version: int, answer: bytearray) -> Iterator[Message]:
    data = memoryview(answer)[LENGTH_SIZE:]
    cursor = Cursor(data)
    reader("ResponseHeader", int(is_flexible(ApiKey.Fetch, version)))(cursor)
    response = decode("FetchResponse", version, data[cursor.position :])
    for topic in response.responses:
        yield from topic.partitions


def _compare(
    broker: Broker, version: int, index: int, offset: int, max_bytes: int, got: memoryview
) -> None:
    """SimulationError: the records differ from an eager conversion of the log from this offset
    on."""
    partition = broker.topics.partition(TOPIC, index)
    assert partition is not None
    records = partition.read(offset, max_bytes, partition.high_watermark)
    magic = magic_of(version)
    if magic is None:
        whole: bytes | bytearray = bytearray(records.size)
        records.read_into(memoryview(whole), 0)
    else:
        whole = eager(records, magic, offset, broker.config.policy)
    if got != memoryview(whole)[: len(got)]:
        raise SimulationError(
            f"Fetch v{version} of partition {index} at offset {offset} got other bytes than "
            "an eager conversion makes"
        )
