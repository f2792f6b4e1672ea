"""Clients and brokers do anything: responses are right, waits end, and nothing is left.

The oracle is a client that connects for each request, to a gateway in front of a broker that
behaves."""

import gc
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.gateway.config import Limits
from downconvert.gateway.figures import End
from downconvert.gateway.network.connection import Connection
from downconvert.gateway.network.sockets import streams
from downconvert.gateway.network.sockets.streams import Stream
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.session import Session
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from records import Codec
from tests.certificates import self_signed
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.serving import KEPT, LENGTH, cluster, gateway
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body
from tests.ports import free_ports
from tests.waiting import wait_for

from .test_passing import GROUP, connected, numbered, one_by_one
from .unruly import Habits, Talk, Unruly

SEED = 71  # of the records and requests
SEEDS = (8, 9, 27)  # of clients and brokers; quick ones, with all kinds of ends
CLIENTS = 6
SIZE_MAX = 8_000_000  # bytes of a conversation
PATIENCE = 8.0  # seconds: longer than any time-out of the gateway here
LIMITS = Limits(request_timeout=2.0, receive_timeout=4.0, idle_timeout=4.0)
SIZES = (10, 3000, 20_000, 90_000, 300_000, 1_500_000)  # held back, in pieces, spliced


@dataclass
class Cluster:
    """A broker with records, the requests for them, and their responses."""

    broker: Broker
    between: Unruly
    certificate: tuple[str, str]
    fetches: list[bytes]
    responses: list[bytes]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with served(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@contextmanager
def served(path: Path) -> Iterator[Cluster]:
    random = Random(SEED)
    (path / "log").mkdir()
    (port,) = free_ports(1)
    with (
        Unruly(port) as between,
        cluster(path / "log", port=port, advertise=between.port) as (broker, _),
        gateway(port) as plain,
    ):
        broker.topics.create("t", 3, KEPT, 0)
        filled = [produced(3, random.randbytes(size), 1) for size in SIZES]
        for codec in (Codec.GZIP, Codec.LZ4):
            body = produce_body(message_set(2, *[b"value"] * 500, codec=codec), partition=1)
            filled.append(frame(ApiKey.Produce, 3, body))
        one_by_one(plain, filled, None)
        fetches = []
        for version in (0, 1, 2, 3, 4, 11, 12):
            for _ in range(12):
                offsets = [random.choice([*range(7), 9]), random.choice([0, 300, 1000]), 0]
                most = random.choice([100, 5000, 100_000, 1 << 20, 1 << 22])
                parts = random.choice([1, 1, 1, 2, 3])
                wait = random.choice([0] * 9 + [30])
                body = fetch_body(*offsets[:parts], max_bytes=most, wait=wait)
                body.session_epoch = -1
                fetches.append(frame(ApiKey.Fetch, version, body))
        responses = one_by_one(plain, fetches, None)
        yield Cluster(broker, between, self_signed(path), fetches, responses)


def produced(version: int, value: bytes, acks: int, topic: str = "t") -> bytes:
    body = produce_body(message_set(0 if version < 3 else 2, value), acks)
    body.topic_data[0].name = topic
    return frame(ApiKey.Produce, version, body)


def acknowledged(version: int, topic: str, offset: int, number: int) -> bytes:
    part = Message(index=0, base_offset=offset, log_append_time_ms=-1, log_start_offset=0)
    body = Message(responses=[Message(name=topic, partition_responses=[part])])
    header = number.to_bytes(4) + bytes(is_flexible(ApiKey.Produce, version))
    data = header + encode("ProduceResponse", version, body)
    return LENGTH.pack(len(data)) + data


class Conversation:
    """One client's requests, how it makes them, and the values that it produces to its topic."""

    def __init__(self, behind: Cluster, random: Random, topic: str, *, has_tls: bool) -> None:
        self.topic = topic
        self.values: list[bytes] = []
        behind.broker.topics.create(topic, 1, KEPT, 0)
        requests: list[bytes] = []
        wanted: list[bytes | None] = []
        kinds = random.choice([[1, 0], [0, 1], [9, 1]])  # fetches and produces
        chosen = random.sample(range(len(behind.fetches)), random.choice([1, 3, 40]))
        size = 0
        for number in range(random.choice([1, 5, 40, 150])):
            if size > SIZE_MAX:
                break
            if random.choices([True, False], kinds)[0]:
                at = random.choice(chosen)
                requests.append(behind.fetches[at])
                response = behind.responses[at]
                wanted.append(response[:4] + number.to_bytes(4) + response[8:])
            else:
                version, acks = random.choice([0, 3, 3, 9]), random.choice([0, 1])
                value = random.randbytes(random.choice([10, 10, 3000, 20_000, 200_000]))
                requests.append(produced(version, value, acks, topic))
                offset = len(self.values)
                wanted.append(acknowledged(version, topic, offset, number) if acks else None)
                self.values.append(value)
            size += len(requests[-1]) + len(wanted[-1] or b"")
        requests = [numbered(request, number) for number, request in enumerate(requests)]
        habits = Habits.of(random, size, has_tls=has_tls)
        self.talk = Talk(requests, wanted, habits, Random(random.random()), PATIENCE)

    def has_arrived(self, broker: Broker, *, has_faults: bool) -> bool:
        """Whether the values that the cluster has are those that were sent first, and all of them
        if the client was served to its end. A broker that ends may lose those without a
        response."""
        partition = broker.topics.partition(self.topic, 0)
        assert partition is not None
        found = [record.value for record in partition.log.records()]
        assert found == self.values[: len(found)]
        return has_faults or self.talk.end != "done" or len(found) == len(self.values)


def check(behind: Cluster, seed: int) -> list[str]:
    """How the conversations of a seed came to their ends."""
    random, between = Random(seed), behind.between
    has_tls, faults = random.random() < 0.4, random.choice([0, 0, 3])
    talks = [
        Conversation(behind, random, f"u{seed}-{number}", has_tls=has_tls)
        for number in range(CLIENTS)
    ]
    tls: dict[str, Any] = {}
    if has_tls:
        tls = dict(zip(("tls_cert", "tls_key"), behind.certificate, strict=True))
    buffer = random.choice([None, 32_768])

    def connect(running: Gateway) -> socket.socket:
        client = connected(running, tls.get("tls_cert"))
        if tls:  # it reads all of the handshake: else its system resets the connection
            client.ask(ApiKey.Heartbeat, 0, GROUP)
        one = client.socket
        if buffer is not None:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        return one

    with ExitStack() as stack:
        between.random, between.faults = Random(seed), faults
        running = stack.enter_context(gateway(between.port, limits=LIMITS, **tls))
        gc.collect()
        gc.disable()
        stack.callback(gc.enable)
        before = connected_objects()
        free, unread = running.requests.free, running.unread.free
        threads = [
            Thread(target=one.talk.run, args=(partial(connect, running),), daemon=True)
            for one in talks
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ends = [one.talk.end for one in talks]
        whys = [one.talk.why for one in talks if one.talk.why]
        about = f"seed {seed}, faults {faults}, TLS {has_tls}: {ends}, {whys}"
        assert not {"wrong", "hangs"} & set(ends), about
        assert faults or "ended" not in ends, about
        wait_for(lambda: not running.places, PATIENCE)
        has_faults = bool(faults)
        for one in talks:
            wait_for(partial(one.has_arrived, behind.broker, has_faults=has_faults), PATIENCE)
        wait_for(lambda: not between.open, PATIENCE)
        wait_for(lambda: connected_objects() <= before + 3, PATIENCE)
        assert faults or not running.figures().ends[End.CLUSTER], about
        assert running.budget.held == 0, about
        assert (running.requests.free, running.unread.free) == (free, unread), about
    return ends


def connected_objects() -> int:
    """The number of objects that belong to connections."""
    return sum(isinstance(one, Connection | Session | Stream) for one in gc.get_objects())


@pytest.mark.parametrize("seed", SEEDS)
def test_responses_are_right_and_nothing_is_left(
    behind: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    seed: int,
) -> None:
    monkeypatch.setattr(streams, "LINGER", 0.3)
    check(behind, seed)
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
