"""The doctor on what real brokers of Kafka 3 leave behind of real clients: it names those that a
real broker of Kafka 4 does not serve, and none that it does.

Each client reads a topic from both brokers. The doctor gets the request log of the older one, and
a proxy's capture. `python -m tests.clients.test_doctor` asks all."""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer

from downconvert.doctor.census import Census
from downconvert.doctor.diagnosis import diagnose
from downconvert.doctor.kinds import Evidence
from downconvert.doctor.releases import NEWEST
from tests.kafka_server import NEW, OLD, QUICK, KafkaServer, running
from tests.ports import free_ports

from .combinations import MAVEN, PYPI, Combination, all_combinations
from .install import installed
from .recording import Recording, recorded
from .runs import ask

TOPIC, RECORDS = "events", 15
WAIT = 8.0  # seconds; a client that is refused tries again and again
AT_A_TIME = 4
LOGGED = (
    "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss",
)
SOME = {
    "kafka-python 0.9.5 default simple",
    "kafka-python 2.3.3 0.10 assign",
    "kafka-python 2.3.3 0.11 assign",
    "aiokafka 0.8.1 auto assign",
    "confluent-kafka 2.16.1 default assign",
    "kafka-clients 0.10.2.2 default assign",
}


class Watched:
    """A broker of Kafka 3 behind a proxy, and what it logs."""

    def __init__(self, kafka: KafkaServer, port: int, recording: Recording) -> None:
        self.bootstrap = f"127.0.0.1:{port}"
        self._recording = recording
        self._port = port
        self._log = kafka.log_of(0)
        self._read = 0

    def evidence_of(self, combination: Combination) -> tuple[bytes, bytes]:
        """A request log and a capture of the client alone."""
        self._taken()
        self._recording.clear()
        assert reads(combination, self.bootstrap), f"{combination} does not read from Kafka {OLD}"
        # The broker may log the last fetch of a client after the client has gone.
        own = [b":%d-" % port for port in self._recording.ports]
        lines = self._taken().splitlines(keepends=True)
        log = b"".join(line for line in lines if any(port in line for port in own))
        return log, self._recording.pcap()

    def names(self, evidence: bytes) -> set[str]:
        """The refused requests of the clients that the doctor names."""
        census, reader = Census(), Evidence([self._port])
        for seen in (*reader.feed(evidence), *reader.end()):
            census.add(seen)
        assert not reader.problems.counts
        return {
            str(refused) for client in diagnose(census) for refused in client.refused_by(NEWEST)
        }

    def _taken(self) -> bytes:
        with self._log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        return data


@contextmanager
def watched() -> Iterator[Watched]:
    (port,) = free_ports(1)
    where = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with (
        running(OLD, properties=where, jvm_options=(*QUICK, *LOGGED)) as kafka,
        recorded(port, kafka.ports[0]) as recording,
    ):
        fill(kafka, f"127.0.0.1:{port}")
        yield Watched(kafka, port, recording)


def fill(kafka: KafkaServer, bootstrap: str) -> None:
    kafka.create_topic(TOPIC)
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")
    for number in range(RECORDS):
        producer.send(TOPIC, b"%d" % number)
    producer.flush()
    producer.close()


def reads(combination: Combination, bootstrap: str) -> bool:
    """Whether the client reads all of the topic."""
    command = [*installed(combination.client), "--bootstrap", bootstrap]
    command += ["--mode", combination.mode, "--pin", combination.pin, "--wait", str(WAIT)]
    read, _, _ = ask(command, [(TOPIC, 1, RECORDS)], WAIT)
    return len(read.get(TOPIC, [])) == RECORDS


def combinations(names: Sequence[str] | set[str]) -> list[Combination]:
    return [one for one in all_combinations() if str(one) in names]


@pytest.fixture(scope="module")
def works() -> Iterator[dict[Combination, Future[bool]]]:
    """Whether Kafka 4 serves each client."""
    with running(NEW) as kafka, ThreadPoolExecutor(AT_A_TIME) as pool:
        fill(kafka, kafka.bootstrap)
        some = combinations(SOME)
        yield {one: pool.submit(reads, one, kafka.bootstrap) for one in some}


@pytest.fixture(scope="module")
def kafka_3() -> Iterator[Watched]:
    with watched() as broker:
        yield broker


@pytest.mark.parametrize("combination", combinations(SOME), ids=str)
def test_those_that_kafka_4_does_not_serve_are_named_and_no_others(
    combination: Combination, kafka_3: Watched, works: dict[Combination, Future[bool]]
) -> None:
    log, capture = kafka_3.evidence_of(combination)
    named = kafka_3.names(log)
    assert bool(named) != works[combination].result(), named
    captured = kafka_3.names(capture)
    assert named <= captured, "the last requests may not be in the log yet"
    assert bool(named) == bool(captured)


def main() -> int:
    """All clients of PyPI and Maven, a line each; 1 if the doctor is wrong about one."""
    every = [one for one in all_combinations() if one.client.registry in (PYPI, MAVEN)]
    wrong = 0
    with watched() as kafka_3, running(NEW) as kafka_4, ThreadPoolExecutor(AT_A_TIME) as pool:
        fill(kafka_4, kafka_4.bootstrap)
        served = {one: pool.submit(reads, one, kafka_4.bootstrap) for one in every}
        for one in every:
            log, capture = kafka_3.evidence_of(one)
            named = kafka_3.names(log)
            works = served[one].result()
            captured = kafka_3.names(capture)
            right = bool(named) == bool(captured) != works and named <= captured
            wrong += not right
            says = ", ".join(sorted(named)) or "needs nothing"
            print(f"{'right' if right else 'WRONG'} {one}: {'works' if works else 'fails'}; {says}")
    print(f"{len(every) - wrong} of {len(every)} right")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
