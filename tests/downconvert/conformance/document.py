"""Makes docs/conformance.md: our broker, Kafka's of three ages, and the gateway, judged.

    python -m tests.downconvert.conformance.document

Java and Maven are needed (tests/kafka_server.py); it takes a minute."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.conformance.page import markdown
from downconvert.conformance.plans import PLANS
from downconvert.conformance.rules import CLIENTS, RULES
from downconvert.conformance.score import judge
from downconvert.storage import LogDir
from tests import kafka_server, kafka_zookeeper
from tests.downconvert.gateway.serving import gateway
from tests.ports import LOOPBACK

PATH: Final = Path(__file__).parents[3] / "docs" / "conformance.md"
HEAD: Final = """# Does it serve old clients?

`downconvert conformance HOST:PORT` judges any broker that says so: it writes topics to it, fetches
them in every version of Fetch that the broker offers and with limits of one byte, of about the
first batch, and of 1 MiB, and says which rules were not kept, by which versions and topics, with
the first bytes in question, and whom it hurts. `--html FILE` makes a page, `--json` an object; the
exit code is 0 where all is right. Its topics are deleted in the end. It speaks neither TLS nor
SASL.

A *case* is a topic, read in one version with one limit. This file is made by
`python -m tests.downconvert.conformance.document`.

"""
TAIL: Final = """
## What is behind it

* Kafka 2.8 and 3.9: their converter promises sizes before it converts, fills up or cuts off what
  does not fit, and takes the first batch twice where control batches come before it.
* Kafka 4 hands zstd out as it is to Fetch 4-9, which the older ones answer with error 76.

What it does not write: logs that were compacted or trimmed, messages that are v0 or v1 on disk, and
transactions where the broker has none. On compacted logs Kafka's converter has more faults:
[old clients](old-clients.md).
"""


def sections() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory() as directory,
        LogDir.open(Path(directory), writable=True) as log_dir,
        Server(Broker(log_dir, BrokerConfig(is_writable=True)), (LOOPBACK, 0)) as server,
    ):
        yield from section(server.address[1], "`downconvert serve --writable`")
    with kafka_zookeeper.running() as port:
        yield from section(port, f"Kafka {kafka_zookeeper.VERSION}, with ZooKeeper")
    with kafka_server.running(kafka_server.OLD) as kafka:
        yield from section(kafka.ports[0], f"Kafka {kafka_server.OLD}")
    with kafka_server.running(kafka_server.NEW) as kafka, gateway(*kafka.ports) as front:
        yield from section(kafka.ports[0], f"Kafka {kafka_server.NEW}")
        yield from section(front.address.port, f"The gateway before Kafka {kafka_server.NEW}")


def section(port: int, title: str) -> Iterator[str]:
    yield from markdown(judge(LOOPBACK, port, step=lambda *_: None), title)


def tables() -> Iterator[str]:
    yield from ("## The rules", "", "| rule | what | from |", "| --- | --- | --- |")
    yield from (f"| {rule.name} | {rule.what} | {rule.source} |" for rule in RULES.values())
    yield from ("", "## The topics", "", "| topic | what |", "| --- | --- |")
    yield from (f"| {plan.name} | {plan.what} |" for plan in PLANS)
    yield from ("", "## Who asks what", "", "| Fetch | who |", "| --- | --- |")
    yield from (f"| {version} | {who} |" for version, who in CLIENTS)


def main() -> None:
    lines = [*sections(), *tables()]
    PATH.write_text(HEAD + "\n".join(lines) + "\n" + TAIL)


if __name__ == "__main__":
    main()
