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

`downconvert conformance HOST:PORT` tests any broker. It writes [topics](#the-topics), fetches them
in every version of Fetch that the broker offers, and deletes them. The limits of a fetch are one
byte, about the size of the first batch, and 1 MiB. The result names each [rule](#the-rules) that is
broken, the versions and topics, the first bytes in question, and the clients that suffer. `--html
FILE` makes a page, `--json` an object. The exit code is 0 if everything is right.

For a broker with TLS or a login:

    DOWNCONVERT_SASL_SECRET=... downconvert conformance kafka.example:9093 --ca ca.pem \\
        --sasl SCRAM-SHA-512 --username tester

Add `--cert` and `--key` if it asks for a certificate. `--tls` alone trusts what the system trusts.
The user needs the rights to create, write, read and delete topics named `conformance-*`, and to use
transactional ids named so.

Compacted topics are written first and read last, after the broker's cleaner has run. The result
names the topics that were left out: compacted ones, if the cleaner has not run within a minute, and
those in old formats, if the broker only writes v2. The test writes no trimmed logs, no logs in
which a newer format follows an older one, and no transactions if the broker has none.

"""
RESULTS: Final = """## Results

A *case* is a topic, read in one version with one limit. These were made by
`python -m tests.downconvert.conformance.document` on {date}.

"""
CAUSES: Final = """
**Causes.**

* The converter of Kafka 2.8 and 3.9 promises sizes before it converts, and fills up or cuts off
  what does not fit. It sends the first batch twice if control batches come before it.
* Topics that Kafka 2.8 and 3.9 compact end in filler for old clients. So does a log of v1 for
  clients of Fetch 0-1, because it becomes smaller in conversion.
* Kafka 4 sends zstd as it is to Fetch 4-9. Older brokers answer with error 76.

[Old clients](old-clients.md) shows what real clients make of compacted logs.
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
        plain = [*section(kafka.ports[0], f"Kafka {kafka_server.OLD}")]
    yield from plain
    with kafka_secured.running(kafka_server.OLD) as (address, certificate):
        port = int(address.rpartition(":")[2])
        secured = section(
            port,
            f"Kafka {kafka_server.OLD}",
            Access(
                tls=ssl.create_default_context(cafile=certificate),
                credentials=Credentials(
                    mechanism="SCRAM-SHA-512",
                    username=kafka_secured.USER,
                    secret=kafka_secured.SECRET,
                ),
            ),
        )
        yield from same_over_tls(plain, [*secured])
    with kafka_server.running(kafka_server.NEW) as kafka, gateway(*kafka.ports) as front:
        yield from section(kafka.ports[0], f"Kafka {kafka_server.NEW}")
        yield from section(front.address.port, f"The gateway in front of Kafka {kafka_server.NEW}")


def same_over_tls(plain: list[str], secured: list[str]) -> Iterator[str]:
    """A sentence if a broker does the same over TLS, else all that it does there."""
    if secured == plain:
        yield from ("Over TLS with SCRAM-SHA-512, the results are the same.", "")
    else:
        yield from (f"{secured[0]}, over TLS with SCRAM-SHA-512", *secured[1:])


def section(port: int, title: str, access: Access = PLAIN) -> Iterator[str]:
    host = LOOPBACK if access is PLAIN else "localhost"  # as certificates say
    lines = markdown(judge(host, port, access=access, step=lambda *_: None), title)
    yield from (
        line.replace("## ", "### ", 1) if line.startswith("## ") else line for line in lines
    )


def tables() -> Iterator[str]:
    yield from ("## The rules", "", "| rule | what | from |", "| --- | --- | --- |")
    yield from (f"| {rule.name} | {rule.what} | {rule.source} |" for rule in RULES.values())
    yield from ("", "## The topics", "", "| topic | what |", "| --- | --- |")
    yield from (f"| {plan.name} | {plan.what} |" for plan in PLANS)
    yield from ("", "## Clients by version of Fetch", "", "| Fetch | clients |", "| --- | --- |")
    yield from (f"| {version} | {who} |" for version, who in CLIENTS)


def main() -> None:
    results = RESULTS.format(date=datetime.now(UTC).date().isoformat())
    found = "\n".join(sections())
    PATH.write_text(HEAD + "\n".join(tables()) + "\n\n" + results + found + CAUSES)


if __name__ == "__main__":
    main()
