"""Makes docs/conformance.md: our broker, Kafka's of three ages, and the gateway, judged.

    python -m tests.downconvert.conformance.document

Java and Maven are needed (tests/kafka_server.py); it takes a minute."""

import ssl
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.conformance.connection import PLAIN, Access
from downconvert.conformance.page import markdown
from downconvert.conformance.plans import PLANS
from downconvert.conformance.rules import CLIENTS, RULES
from downconvert.conformance.score import judge
from downconvert.gateway.security import Credentials
from downconvert.storage import LogDir
from tests import kafka_secured, kafka_server, kafka_zookeeper
from tests.downconvert.gateway.serving import gateway
from tests.ports import LOOPBACK

PATH: Final = Path(__file__).parents[3] / "docs" / "conformance.md"
# The cleaner comes as often as Kafka's.
CONFIG: Final = BrokerConfig(
    is_writable=True, log_initial_task_delay_ms=0, log_retention_check_interval_ms=15_000
)
HEAD: Final = """# Does it serve old clients?

`downconvert conformance HOST:PORT` judges any broker that says so. It writes topics to it, and
fetches them in every version of Fetch that the broker offers, with limits of one byte, of about the
first batch, and of 1 MiB. It says which rules were not kept, by which versions and topics, with the
first bytes in question, and whom it hurts. `--html FILE` makes a page, `--json` an object. The exit
code is 0 where all is right. Its topics are deleted in the end. Brokers that speak TLS or want a
login are judged, too:

    DOWNCONVERT_SASL_SECRET=... downconvert conformance kafka.example:9093 --ca ca.pem \\
        --sasl SCRAM-SHA-512 --username tester

(`--cert` and `--key` where they ask for a certificate; `--tls` alone trusts what the system
trusts). The user needs the rights to create, write, read and delete topics named `conformance-*`,
and to use transactional ids named so.

Topics that are compacted are written first and read last, once the broker's cleaner has been there;
where it has not within a minute, they are left out, and that is said. So are topics in old formats
where the broker only writes v2.

A *case* is a topic, read in one version with one limit. This file is made by
`python -m tests.downconvert.conformance.document`, and was on {date}.

"""
TAIL: Final = """
## What is behind it

* Kafka 2.8 and 3.9: their converter promises sizes before it converts, fills up or cuts off what
  does not fit, and takes the first batch twice where control batches come before it.
* Kafka 4 hands zstd out as it is to Fetch 4-9, which the older ones answer with error 76.

* What is compacted by Kafka 2.8 and 3.9 ends in filler for old clients, and so does a log of v1 for
  those of Fetch 0-1: it becomes smaller as it is converted.

What it does not write: logs that were trimmed, logs in which a newer format follows an older one,
and transactions where the broker has none. What real clients make of compacted logs is in
[old clients](old-clients.md).
"""


def sections() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory() as directory,
        LogDir.open(Path(directory), writable=True) as log_dir,
        Server(Broker(log_dir, CONFIG), (LOOPBACK, 0)) as server,
    ):
        yield from section(server.address[1], "`downconvert serve --writable`")
    with kafka_zookeeper.running() as port:
        yield from section(port, f"Kafka {kafka_zookeeper.VERSION}, with ZooKeeper")
    with kafka_server.running(kafka_server.OLD) as kafka:
        yield from section(kafka.ports[0], f"Kafka {kafka_server.OLD}")
    with kafka_secured.running(kafka_server.OLD) as (address, certificate):
        port = int(address.rpartition(":")[2])
        yield from section(
            port,
            f"Kafka {kafka_server.OLD}, over TLS with SCRAM-SHA-512",
            Access(
                tls=ssl.create_default_context(cafile=certificate),
                credentials=Credentials(
                    mechanism="SCRAM-SHA-512",
                    username=kafka_secured.USER,
                    secret=kafka_secured.SECRET,
                ),
            ),
        )
    with kafka_server.running(kafka_server.NEW) as kafka, gateway(*kafka.ports) as front:
        yield from section(kafka.ports[0], f"Kafka {kafka_server.NEW}")
        yield from section(front.address.port, f"The gateway before Kafka {kafka_server.NEW}")


def section(port: int, title: str, access: Access = PLAIN) -> Iterator[str]:
    host = LOOPBACK if access is PLAIN else "localhost"  # as certificates say
    yield from markdown(judge(host, port, access=access, step=lambda *_: None), title)


def tables() -> Iterator[str]:
    yield from ("## The rules", "", "| rule | what | from |", "| --- | --- | --- |")
    yield from (f"| {rule.name} | {rule.what} | {rule.source} |" for rule in RULES.values())
    yield from ("", "## The topics", "", "| topic | what |", "| --- | --- |")
    yield from (f"| {plan.name} | {plan.what} |" for plan in PLANS)
    yield from ("", "## Who asks what", "", "| Fetch | who |", "| --- | --- |")
    yield from (f"| {version} | {who} |" for version, who in CLIENTS)


def main() -> None:
    lines = [*sections(), *tables()]
    head = HEAD.format(date=datetime.now(UTC).date().isoformat())
    PATH.write_text(head + "\n".join(lines) + "\n" + TAIL)


if __name__ == "__main__":
    main()
