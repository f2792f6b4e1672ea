"""What does an old client get from a Kafka 4 cluster, without the gateway and with it?

A real broker of Kafka 4.4.0 has 1,000 records. The console consumer of Kafka 0.10.2.2 connects to
the broker directly, and through `downconvert gateway`. For comparison, a current consumer reads the
same. The last lines show the memory that lazy and eager conversion take. The first run fetches both
releases with Maven into build/.

    python -m bench.demo
"""

import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kafka import KafkaConsumer

from judges import limited
from judges.kafka_tools import KafkaTools, main_class
from judges.kafka_tools.data import RECORDS, TOPIC, make, produce
from records.units import format_size
from tests import kafka_server
from tests.clients.install import JAVA

from .picture import OPTIONS, WORKLOAD, measured, memory
from .servers.gateway_clients import in_front

OLD: Final = "0.10.2.2"
CONSOLE_CONSUMER: Final = "kafka.tools.ConsoleConsumer"
OLD_SECONDS: Final = 15.0  # for an old client, because it retries for ever
RECORD: Final = "record-"


@dataclass(frozen=True, slots=True)
class Line:
    """One client, and the number of records that it read."""

    client: str
    cluster: str
    records: int
    seconds: float

    def __str__(self) -> str:
        words = "reads" if self.records else "fails"
        return (
            f"{self.client:<26}{self.cluster:<36}{words}  "
            f"{self.records:>5,} of {RECORDS:,} records in {self.seconds:.1f} s"
        )


def compared(kafka: str = kafka_server.NEW) -> list[Line]:
    """Three lines: the current client, the old one, and the old one through the gateway."""
    folder = _fetched(kafka)
    with kafka_server.running(kafka) as cluster:
        make(cluster.bootstrap, TOPIC)
        produce(cluster.bootstrap)
        lines = [_today(cluster.bootstrap, f"Kafka {kafka}")]
        lines.append(_old(folder, cluster.bootstrap, f"Kafka {kafka}"))
        with in_front(cluster.bootstrap) as gateway:
            bootstrap = "{}:{}".format(*gateway.address)
            lines.append(_old(folder, bootstrap, f"Kafka {kafka}, through the gateway"))
    return lines


def memory_lines(workload: str = WORKLOAD) -> list[str]:
    """The sender's memory in each mode, as the README shows it."""
    sizes = memory(measured(workload, replace(OPTIONS, rounds=1)))
    return [
        f"{f'{mode} conversion':<26}{'for 16 clients, fetches of 4 MiB':<36}takes "
        f"{format_size(size)} of memory"
        for mode, size in sizes.items()
    ]


def _fetched(kafka: str) -> Path:
    """The folder of the old client's classes."""
    _say(f"Kafka {kafka}: fetched with Maven, unless it is in build/ already")
    kafka_server.prepare(kafka)
    _say(f"the client of Kafka {OLD}: likewise")
    folder = KafkaTools().fetch(OLD)
    _say(f"starting Kafka {kafka}; the old client gets {OLD_SECONDS:.0f} s")
    return folder


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _today(bootstrap: str, cluster: str) -> Line:
    began = time.monotonic()
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=OLD_SECONDS * 1000,
    )
    records = 0
    for _ in consumer:
        records += 1
        if records == RECORDS:
            break
    seconds = time.monotonic() - began
    consumer.close()
    return Line("today's (kafka-python)", cluster, records, seconds)


def _old(folder: Path, bootstrap: str, cluster: str) -> Line:
    main = main_class(folder, (CONSOLE_CONSUMER,))
    options = ("--new-consumer", "--bootstrap-server", bootstrap, "--topic", TOPIC)
    command = (*JAVA, "-cp", f"{folder}/*", main, *options, "--from-beginning")
    with tempfile.TemporaryDirectory(prefix="demo-") as temporary:
        ended = limited.run(
            (*command, "--max-messages", str(RECORDS)), OLD_SECONDS, Path(temporary) / "log"
        )
    records = sum(line.startswith(RECORD) for line in ended.output.splitlines())
    return Line(f"console consumer {OLD}", cluster, records, ended.seconds)


def main() -> int:
    missing = kafka_server.missing()
    if missing:
        print(f"no {' and no '.join(missing)}: the old client is not shown", file=sys.stderr)
        return 0
    lines = compared()
    print("", *lines, "", *memory_lines(), sep="\n")
    today, alone, through = (line.records == RECORDS for line in lines)
    return 0 if today and not alone and through else 1


if __name__ == "__main__":
    sys.exit(main())
