"""Burrow, which watches how far consumer groups are behind: asked by HTTP for a group's lag.

It takes offsets from the topic __consumer_offsets, and ends of topics from ListOffsets. The group
has committed the offset 0 of a topic of twenty records, so that its lag is twenty. Burrow keeps its
own locks in a ZooKeeper, which is nobody else's."""

import http.client
import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests import kafka_server
from tests.clients.install import JAVA
from tests.ports import LOOPBACK, free_ports

from . import packages
from .application import AS_IT_COMES, Application, Does, Setting, Trial
from .children import running

GROUP: Final = "watched"
_BURROW: Final = """
[general]
pidfile="{here}/burrow.pid"
[logging]
level="info"
[zookeeper]
servers=["127.0.0.1:{zookeeper}"]
timeout=30
root-path="/burrow"
[client-profile.watching]
client-id="burrow"
{settings}
[cluster.local]
class-name="kafka"
servers=["{bootstrap}"]
client-profile="watching"
topic-refresh=60
offset-refresh=1
[consumer.local]
class-name="kafka"
cluster="local"
servers=["{bootstrap}"]
client-profile="watching"
start-latest=false
[httpserver.default]
address="127.0.0.1:{port}"
[storage.default]
class-name="inmemory"
min-distance=0
"""


def install() -> Path:
    return packages.debian("burrow")


def run(trial: Trial) -> str:
    port, zookeeper = free_ports(2)
    text = _BURROW.format(
        here=trial.directory,
        bootstrap=trial.bootstrap,
        port=port,
        zookeeper=zookeeper,
        settings=trial.setting.values.get("profile", ""),
    )
    trial.write("burrow.toml", text)
    command = (str(trial.installed / "usr/bin/Burrow"), "--config-dir", str(trial.directory))
    seen: list[str] = []

    def tells() -> bool:
        trial.target.commit(GROUP, trial.topic, 0)  # it counts commits that it sees coming
        lag = _lag(port, trial.topic)
        seen[:] = [] if lag is None else [str(lag)]
        return lag is not None and lag > 0

    log = trial.directory / "zookeeper.log"
    with running(_zookeeper(zookeeper, trial.directory), log) as keeper:
        trial.until(lambda: _serves(zookeeper), keeper)
        with running(command, trial.log) as process:
            trial.until(tells, process)
    return "".join(seen)


def _zookeeper(port: int, directory: Path) -> tuple[str, ...]:
    """The one of Kafka 3, whose jars are here anyway."""
    program = "org.apache.zookeeper.server.ZooKeeperServerMain"
    path = ("-cp", kafka_server.prepare(kafka_server.OLD))
    quiet = "-Dzookeeper.admin.enableServer=false"
    return (*JAVA, quiet, *path, program, str(port), str(directory / "zookeeper"))


def _serves(port: int) -> bool:
    """Whether ZooKeeper takes clients: it listens before it does, and Burrow asks once."""
    with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=5) as asking:
        asking.sendall(b"srvr")
        return b"Mode:" in asking.recv(4096)
    return False


def _lag(port: int, topic: str) -> int | None:
    """The group's lag by Burrow; None if it does not know the group or the topic."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    with suppress(OSError, ValueError, KeyError, TypeError):
        connection.request("GET", f"/v3/kafka/local/consumer/{GROUP}/lag")
        status = json.loads(connection.getresponse().read())["status"]
        for partition in status["partitions"]:
            if partition["topic"] == topic:
                return int(partition["current_lag"])
    connection.close()
    return None


def _profile(version: str) -> Setting:
    return Setting(f'`kafka-version="{version}"`', {"profile": f'kafka-version="{version}"'})


APPLICATIONS: Final = (
    Application(
        name="Burrow",
        comes_from="Debian: burrow 1.2.1",
        client="Sarama",
        does=Does.WATCHES,
        settings=(AS_IT_COMES, *map(_profile, ("0.8.2", "2.0.0"))),
        install=install,
        run=run,
        group=GROUP,
    ),
)
