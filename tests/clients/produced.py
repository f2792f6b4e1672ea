"""Producers old and new: what they send, read back by the newest and by the oldest consumers.

Not here: what else consumers read (runs.py)."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from tests import kafka_wire

from .combinations import MAVEN, PYPI, Client, Combination, all_combinations
from .install import installed
from .outcome import difference
from .runs import ask
from .topics import SEED, Line

RECORDS: Final = 40  # of a codec and acks
CODECS: Final = ("none", "gzip", "snappy", "lz4")
SECONDS_MAX: Final = 120.0  # of a producer; one that has sent all ends at once
UNANSWERED: Final = ("none", "0")  # comes last: nobody knows when it has come


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer that sends with each of its codecs, and with each acks, to a topic of its own."""

    client: Client
    pin: str
    codecs: Sequence[str]

    @property
    def topic(self) -> str:
        return f"{self.client.folder}-{self.pin}"

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Codec and acks, in the order in which records are sent."""
        return [*((codec, "all") for codec in self.codecs), ("none", "1"), UNANSWERED]

    def lines(self, codec: str, acks: str) -> list[Line]:
        """The sent keys and values: some are null or empty, one is large."""
        random = Random(f"{SEED} {self.topic} {codec} {acks}")
        keys = [None if number % 5 == 1 else b"key-%d" % (number % 7) for number in range(RECORDS)]
        values = [b"%d " % number + random.randbytes(number) for number in range(RECORDS)]
        values[7], values[11] = b"", random.randbytes(50_000)
        values[12:20] = [b"again and again " * 20] * 8
        return [
            {"k": None if key is None else key.hex(), "v": value.hex()}
            for key, value in zip(keys, values, strict=True)
        ]

    @property
    def expected(self) -> list[Line]:
        """The records to expect of all that were sent."""
        lines = [line for way in self.ways for line in self.lines(*way)]
        return [{"p": 0, "o": offset, **line} for offset, line in enumerate(lines)]

    def __str__(self) -> str:
        return f"{self.client.name} {self.client.version} {self.pin}"


def from_the_oldest() -> list[Producer]:
    """0.8 to 0.10."""
    without_lz4 = CODECS[:3]
    return [
        _python("kafka-python", "0.9.5", "read_kafka_python_simple.py", "default", without_lz4),
        _python("kafka-python", "1.0.2", "read_kafka_python.py", "0.8.2", CODECS),
        _python("confluent-kafka", "2.0.2", "read_confluent.py", "0.8.2.2", without_lz4),
        _python("pykafka", "2.8.0", "read_pykafka.py", "0.9.0", without_lz4),
        Producer(Client(MAVEN, "kafka", "0.8.2.2", "Producer"), "default", CODECS),
        Producer(Client(MAVEN, "kafka-clients", "0.9.0.1", "Producer"), "default", CODECS),
        Producer(Client(MAVEN, "kafka-clients", "0.10.2.2", "Producer"), "default", CODECS),
    ]


def from_the_newest() -> list[Producer]:
    codecs = (*CODECS, "zstd")
    return [
        Producer(Client(MAVEN, "kafka-clients", "4.4.0", "Producer"), "default", codecs),
        _python("kafka-python", "3.0.12", "read_kafka_python.py", "default", codecs),
        _python("confluent-kafka", "2.16.1", "read_confluent.py", "default", codecs),
    ]


def newest_consumers() -> list[Combination]:
    wanted = {("kafka-clients", "4.4.0"), ("kafka-python", "3.0.12"), ("confluent-kafka", "2.16.1")}
    return [
        one
        for one in all_combinations()
        if (one.client.name, one.client.version) in wanted
        and (one.pin, one.mode) == ("default", "assign")
    ]


def oldest_consumers() -> list[Combination]:
    """Consumers that read every codec that they may be given."""
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


def produce(producer: Producer, bootstrap: str, wait: float = 60.0) -> str:
    """Sends all records to a new topic. Returns what went wrong, or an empty text."""
    kafka_wire.create_topic(int(bootstrap.rpartition(":")[2]), producer.topic, 1, 1, {})
    for codec, acks in producer.ways:
        command = [*installed(producer.client), "--bootstrap", bootstrap, "--mode", "produce"]
        command += ["--pin", producer.pin, "--codec", codec, "--acks", acks, "--wait", str(wait)]
        wrong = _send([*command, "--topic", producer.topic], producer, codec, acks)
        if wrong:
            return f"{codec}, acks={acks}: {wrong}"
    return ""


def _send(command: Sequence[str], producer: Producer, codec: str, acks: str) -> str:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    records = producer.lines(codec, acks)
    lines = (json.dumps({"topic": producer.topic, **record}) + "\n" for record in records)
    try:
        out, err = process.communicate("".join(lines).encode(), timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        out, err = b"", b"it does not end"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    ended = [json.loads(line) for line in out.splitlines() if line.startswith(b'{"topic"')]
    if ended == [{"topic": producer.topic, "end": "count"}]:
        return ""
    return f"{ended} {err.decode(errors='replace')[-300:]}"


def read_back(
    consumer: Combination, producers: Sequence[Producer], bootstrap: str, wait: float = 60.0
) -> dict[str, str]:
    """By topic, what the consumer read otherwise."""
    command = [*installed(consumer.client), "--bootstrap", bootstrap, "--mode", consumer.mode]
    command += ["--pin", consumer.pin, "--wait", str(wait)]
    asked = [(producer.topic, 1, len(producer.expected)) for producer in producers]
    read, ends, error = ask(command, asked, wait)
    found = {}
    for producer in producers:
        lines = read.get(producer.topic, [])
        shown = [{name: line.get(name) for name in "pokv"} for line in lines]
        wrong = difference(producer.expected, shown, consumer.magic)
        if wrong:
            found[producer.topic] = f"{wrong} ({ends.get(producer.topic, f'dies: {error}')})"
    return found


def _python(name: str, version: str, program: str, pin: str, codecs: Sequence[str]) -> Producer:
    return Producer(Client(PYPI, name, version, program), pin, codecs)
