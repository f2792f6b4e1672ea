"""Producers old and new: what they send, read back by the newest and by the oldest consumers.

Not here: what else consumers read (runs.py)."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests import kafka_wire
from tests.clients.combinations import MAVEN, PYPI, Client, Combination, all_combinations
from tests.clients.install import installed
from tests.clients.outcome import difference
from tests.clients.runs import ask
from tests.clients.topics import SEED, Line

RECORDS: Final = 60
CODECS: Final = ("none", "gzip", "snappy", "lz4")
ACKS: Final = ("0", "1", "all")


@dataclass(frozen=True, slots=True)
class Produced:
    """A topic of its own for each producer, codec and acks; with one partition."""

    client: Client
    pin: str
    codec: str
    acks: str

    @property
    def topic(self) -> str:
        return f"{self.client.folder}-{self.pin}-{self.codec}-{self.acks}"

    @property
    def lines(self) -> list[Line]:
        """What shall be read: keys and values, some of them null or empty, one of them large."""
        random = Random(f"{SEED} {self.topic}")
        keys = [None if number % 5 == 1 else b"key-%d" % (number % 7) for number in range(RECORDS)]
        values = [b"%d " % number + random.randbytes(number) for number in range(RECORDS)]
        values[7], values[11] = b"", random.randbytes(50_000)
        return [
            {"p": 0, "o": offset, "k": None if key is None else key.hex(), "v": value.hex()}
            for offset, (key, value) in enumerate(zip(keys, values, strict=True))
        ]

    def __str__(self) -> str:
        return f"{self.client.name} {self.client.version} {self.pin} {self.codec} acks={self.acks}"


def from_the_oldest() -> list[Produced]:
    """0.8 and 0.9, in every codec that they have; each acks."""
    python = Client(PYPI, "kafka-python", "0.9.5", "read_kafka_python_simple.py")
    newer = Client(PYPI, "kafka-python", "1.0.2", "read_kafka_python.py")
    confluent = Client(PYPI, "confluent-kafka", "2.0.2", "read_confluent.py")
    pykafka = Client(PYPI, "pykafka", "2.8.0", "read_pykafka.py")
    java = Client(MAVEN, "kafka", "0.8.2.2", "Producer")
    newer_java = Client(MAVEN, "kafka-clients", "0.9.0.1", "Producer")
    v1_java = Client(MAVEN, "kafka-clients", "0.10.2.2", "Producer")
    return [
        *_of(python, "default", ("none", "gzip", "snappy")),
        *_of(newer, "0.8.2", CODECS),
        *_of(confluent, "0.8.2.2", ("none", "gzip", "snappy")),
        *_of(pykafka, "0.9.0", ("none", "gzip", "snappy")),
        *_of(java, "default", CODECS),
        *_of(newer_java, "default", CODECS),
        *_of(v1_java, "default", CODECS),
    ]


def from_the_newest() -> list[Produced]:
    java = Client(MAVEN, "kafka-clients", "4.4.0", "Producer")
    python = Client(PYPI, "kafka-python", "3.0.12", "read_kafka_python.py")
    confluent = Client(PYPI, "confluent-kafka", "2.16.1", "read_confluent.py")
    clients = (java, python, confluent)
    return [each for client in clients for each in _of(client, "default", (*CODECS, "zstd"))]


def newest_consumers() -> list[Combination]:
    wanted = {("kafka-clients", "4.4.0"), ("kafka-python", "3.0.12"), ("confluent-kafka", "2.16.1")}
    return [
        one
        for one in all_combinations()
        if (one.client.name, one.client.version) in wanted
        and (one.pin, one.mode) == ("default", "assign")
    ]


def oldest_consumers() -> list[Combination]:
    """Of those that read every codec that they may be given."""
    wanted = {
        ("kafka-clients", "0.9.0.1", "default", "assign"),
        ("kafka", "0.8.2.2", "1024k", "simple"),
        ("kafka-python", "1.0.2", "0.8.2", "assign"),
        ("confluent-kafka", "2.0.2", "0.8.2.2", "assign"),
    }
    return [
        one
        for one in all_combinations()
        if (one.client.name, one.client.version, one.pin, one.mode) in wanted
    ]


def produce(what: Produced, bootstrap: str, wait: float = 10.0) -> str:
    """Sends the lines to a topic that is created for them. What went wrong; else empty."""
    kafka_wire.create_topic(int(bootstrap.rpartition(":")[2]), what.topic, 1, 1, {})
    command = [*installed(what.client), "--bootstrap", bootstrap, "--mode", "produce"]
    command += ["--pin", what.pin, "--codec", what.codec, "--acks", what.acks]
    process = subprocess.Popen(
        [*command, "--wait", str(wait), "--topic", what.topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    lines = (json.dumps({"topic": what.topic, **line}) + "\n" for line in what.lines)
    try:
        out, err = process.communicate("".join(lines).encode(), timeout=wait + 40)
    except subprocess.TimeoutExpired:
        out, err = b"", b"it does not end"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    ended = [json.loads(line) for line in out.splitlines() if line.startswith(b'{"topic"')]
    if ended == [{"topic": what.topic, "end": "count"}]:
        return ""
    return f"{ended} {err.decode(errors='replace')[-300:]}"


def read_back(
    consumer: Combination, produced: Sequence[Produced], bootstrap: str, wait: float = 8.0
) -> Iterator[tuple[Produced, str]]:
    """What each consumer's reading of each topic differs in."""
    command = [*installed(consumer.client), "--bootstrap", bootstrap, "--mode", consumer.mode]
    command += ["--pin", consumer.pin, "--wait", str(wait)]
    asked = [(each.topic, 1, RECORDS) for each in produced]
    read, ends, said = ask(command, asked, wait)
    for each in produced:
        found = [{name: line.get(name) for name in "pokv"} for line in read.get(each.topic, [])]
        wrong = difference(each.lines, found, consumer.magic)
        end = ends.get(each.topic, f"dies: {said}")
        yield each, f"{wrong} ({end})" if wrong else ""


def _of(client: Client, pin: str, codecs: Sequence[str]) -> Iterator[Produced]:
    """All codecs acknowledged by all, and each acks without a codec."""
    one = Produced(client, pin, "none", "all")
    for codec in codecs:
        yield replace(one, codec=codec)
    for acks in ACKS[:2]:
        yield replace(one, acks=acks)
