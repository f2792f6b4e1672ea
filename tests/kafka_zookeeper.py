"""A broker of Apache Kafka from before KRaft, beside a ZooKeeper of its own, on loopback.

    with running("2.8.2") as port:
        ...

Java and Maven are needed, as for later ones (kafka_server.py), which says what becomes of both."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from . import kafka_server, kafka_wire
from .kafka_server import LOGGING, QUICK, Node
from .ports import LOOPBACK, free_ports

VERSION: Final = "2.8.2"  # the last of 2.x
_KEEPER: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"


@contextmanager
def running(version: str = VERSION) -> Iterator[int]:
    """The port of a broker that answers. KafkaError: it does not start."""
    classpath = kafka_server.prepare(version)
    broker_port, keeper_port = free_ports(2)
    keeper_settings = {
        "dataDir": "zookeeper",
        "clientPort": str(keeper_port),
        "clientPortAddress": LOOPBACK,
        "admin.enableServer": "false",
    }
    settings = {
        "broker.id": "0",
        "zookeeper.connect": f"{LOOPBACK}:{keeper_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{broker_port}",
        "log.dirs": "log",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with tempfile.TemporaryDirectory(prefix="kafka-") as directory:
        home = Path(directory)
        keeper = _node(home / "keeper", classpath, keeper_settings, (_KEEPER,), {"dataDir"})
        broker = _node(home / "broker", classpath, settings, ("kafka.Kafka",), {"log.dirs"})
        try:
            keeper.start()
            broker.start()  # it tries until the other is there
            broker.until(partial(kafka_wire.answers, broker_port), "the broker")
            yield broker_port
        finally:
            broker.kill()
            keeper.kill()


def _node(
    home: Path,
    classpath: str,
    settings: Mapping[str, str],
    main: Sequence[str],
    folders: set[str],
) -> Node:
    """A process with its settings, of which `folders` are names in its own directory."""
    home.mkdir()
    file = home / "properties"
    lines = (
        f"{name}={home / value if name in folders else value}\n" for name, value in settings.items()
    )
    file.write_text("".join(lines))
    return Node(home, ("java", *LOGGING, *QUICK, "-cp", classpath, *main, str(file)))
