"""Real brokers of Apache Kafka (KRaft) on loopback, for as long as a test needs them.

    with running("3.9.1") as kafka:
        kafka.create_topic("events", partitions=3)
        ...                                            # clients connect to kafka.bootstrap

Java and Maven are needed, and a network the first time: Maven fetches a version's classes into
`build/kafka-<version>`. A single node is broker and controller in one; several are brokers beside a
controller of its own, so that any of them can be killed. Brokers die with the process that started
them, also where that is killed: each hangs on a pipe from it (kafka_server/leashed.sh).

Not here: Kafka's classes as judge of a directory (downconvert/storage/kafka_broker.py)."""

import atexit
import base64
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from . import kafka_wire
from .fetching import once
from .ports import free_ports

HOME: Final = Path(__file__).parent / "kafka_server"
BUILD: Final = Path(__file__).parents[1] / "build"
TOOLS: Final = ("java", "mvn")
COPY: Final = "dependency:copy-dependencies"
REQUIRED: Final = os.environ.get("REQUIRE_JAVA", "") not in ("", "0")

OLD: Final = "3.9.1"  # the last that talks to clients below 2.1
NEW: Final = "4.4.0"

# Small, and quick to start rather than quick in the long run.
QUICK: Final = ("-Xms64M", "-Xmx384M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
# Maven and javac are JVMs, too, that live for seconds.
COMPILER: Final = ("javac", *(f"-J{option}" for option in QUICK[-2:]))
MAVEN_OPTIONS: Final = {"MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} {' '.join(QUICK[-2:])}"}
START_SECONDS: Final = 120.0  # of a broker, on a machine that is busy with others
STOP_SECONDS: Final = 30.0

_CONTROLLER: Final = 999  # the id of a controller that is no broker


class KafkaError(Exception):
    """A broker that did not do what was asked, with the tail of its log."""


class Node:
    """A node: its settings, where it logs, and its process while it runs."""

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        self.log = directory / "server.log"
        self._command = command
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                ("sh", str(HOME / "leashed.sh"), *self._command),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        atexit.register(self.kill)

    @property
    def is_running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def pid(self) -> int:
        """The process of its command, whose parent holds its leash. LookupError: it has ended."""
        assert self._popen is not None
        children = Path(f"/proc/{self._popen.pid}/task/{self._popen.pid}/children").read_text()
        for child in map(int, children.split()):
            if Path(f"/proc/{child}/comm").read_text().strip() == self._command[0]:
                return child
        raise LookupError(self._command[0])

    def kill(self, with_signal: int = signal.SIGKILL) -> None:
        """With SIGTERM it may stop in its own way first, for a while."""
        if self._popen is None:
            return
        if with_signal != signal.SIGKILL and self.is_running:
            os.killpg(self._popen.pid, with_signal)
            self._wait()
        if self._popen.stdin is not None:
            self._popen.stdin.close()  # the leash: the shell goes when its command is gone
        self._wait()
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._popen = None
        atexit.unregister(self.kill)

    def _wait(self) -> None:
        assert self._popen is not None
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(STOP_SECONDS)

    def until(self, holds: Callable[[], bool], name: str) -> None:
        """Waits until something holds, which it does not while asking raises OSError. KafkaError:
        the process has died, or it takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(OSError):
                if holds():
                    return
            if not self.is_running:
                raise KafkaError(f"{name} died:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise KafkaError(f"{name} does not answer:\n{self.tail()}")
            time.sleep(0.05)

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-40:])


class KafkaServer:
    """Brokers that run. Nodes are numbered from 0, and so are their ids."""

    def __init__(
        self,
        classpath: str,
        directory: Path,
        log_dirs: Sequence[Path],
        properties: Mapping[str, str],
        jvm_options: Sequence[str],
    ) -> None:
        self.log_dirs = list(log_dirs)
        *self.ports, self._quorum = free_ports(len(log_dirs) + 1)
        self._processes: list[Node] = []
        controllers = [] if len(log_dirs) == 1 else [directory / "controller"]
        for node, log_dir in enumerate([*self.log_dirs, *controllers]):
            node_id = node if node < len(self.ports) else _CONTROLLER
            home = directory / f"node-{node_id}"
            home.mkdir()
            _format(log_dir, node_id)
            options = ("-cp", classpath, "kafka.Kafka", str(home / "server.properties"))
            settings = self._settings(node_id, log_dir) | dict(properties)
            lines = (f"{name}={value}\n" for name, value in settings.items())
            (home / "server.properties").write_text("".join(lines))
            self._processes.append(Node(home, ("java", *LOGGING, *jvm_options, *options)))

    @property
    def bootstrap(self) -> str:
        """Every broker as `host:port`, separated by commas."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        """Starts every node. Back when all brokers answer."""
        for process in self._processes:
            process.start()
        for node in range(len(self.ports)):
            self._await(node)

    def kill(self, node: int, with_signal: int = signal.SIGKILL) -> None:
        """As a power failure does it; with SIGTERM, as an operator does."""
        self._processes[node].kill(with_signal)

    def pid(self, node: int) -> int:
        """The process of a node's JVM, where the system has /proc."""
        return self._processes[node].pid

    def await_fenced(self, node: int) -> None:
        """Back when the others know that a node was killed: until then new topics may be put on
        it."""
        for other in range(len(self.ports)):
            if self._processes[other].is_running:
                self._until(other, partial(self._is_without, other, node))

    def _is_without(self, node: int, dead: int) -> bool:
        return dead not in kafka_wire.brokers(self.ports[node])

    def restart(self, node: int) -> None:
        """Starts a node that was killed, at its old port and log. Back when it answers."""
        assert not self._processes[node].is_running, f"node {node} runs"
        self._processes[node].start()
        self._await(node)

    def close(self) -> None:
        """Kills all."""
        for process in self._processes:
            process.kill()

    def log_of(self, node: int) -> Path:
        """The file that a node logs to."""
        return self._processes[node].log

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Back when all live brokers know leaders, and these their logs. KafkaError: refused."""
        live = [node for node in range(len(self.ports)) if self._processes[node].is_running]
        try:
            kafka_wire.create_topic(self.ports[live[0]], name, partitions, replicas, config or {})
        except kafka_wire.RefusedError as refused:
            raise KafkaError(str(refused)) from None
        for node in live:
            self._until(node, partial(self._knows, node, name, partitions))

    def _knows(self, node: int, topic: str, partitions: int) -> bool:
        leaders = kafka_wire.leaders(self.ports[node], topic)
        return len(leaders) == partitions and all(
            leader >= 0 and kafka_wire.has_log(self.ports[leader], topic, partition)
            for partition, leader in leaders.items()
        )

    def _settings(self, node_id: int, log_dir: Path) -> dict[str, str]:
        single = len(self.ports) == 1
        quorum = f"CONTROLLER://127.0.0.1:{self._quorum}"
        replicas = str(min(3, len(self.ports)))
        settings = {
            "node.id": str(node_id),
            "log.dirs": str(log_dir),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": f"{0 if single else _CONTROLLER}@127.0.0.1:{self._quorum}",
            "log.retention.ms": "-1",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
        }
        if node_id == _CONTROLLER:
            return settings | {"process.roles": "controller", "listeners": quorum}
        listener = f"PLAINTEXT://127.0.0.1:{self.ports[node_id]}"
        return settings | {
            "process.roles": "broker,controller" if single else "broker",
            "listeners": f"{listener},{quorum}" if single else listener,
            "advertised.listeners": listener,
        }

    def _await(self, node: int) -> None:
        self._until(node, partial(kafka_wire.answers, self.ports[node]))

    def _until(self, node: int, holds: Callable[[], bool]) -> None:
        self._processes[node].until(holds, f"node {node}")


@contextmanager
def running(
    version: str = OLD,
    nodes: int = 1,
    properties: Mapping[str, str] | None = None,
    log_dir: Path | None = None,
    jvm_options: Sequence[str] = QUICK,
) -> Iterator[KafkaServer]:
    """Brokers that answer, and are dead and forgotten afterwards.

    `properties` override those of server.properties on every node. `log_dir` is where the log of
    a node goes (of several: `log_dir/0` and so on), and stays; it may be one that a broker left.
    KafkaError: they do not start; assertion: a tool is missing."""
    classpath = prepare(version)
    with tempfile.TemporaryDirectory(prefix="kafka-") as temporary:
        directory = Path(temporary)
        parent = directory / "logs" if log_dir is None else log_dir
        log_dirs = [parent] if nodes == 1 else [parent / str(node) for node in range(nodes)]
        options = (*jvm_options, *archived(classpath))
        server = KafkaServer(classpath, directory, log_dirs, properties or {}, options)
        try:
            server.start()
            yield server
        finally:
            server.close()


def missing() -> list[str]:
    """The tools that are not here."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def prepare(version: str) -> str:
    """Where the classes of a version are, for `java -cp`. Several processes may ask at once."""
    return fetched(HOME / "pom.xml", f"kafka-{version}", f"-Dkafka.version={version}")


def fetched(pom: Path, name: str, *options: str) -> str:
    """Where the dependencies of a POM are, for `java -cp`. Maven fetches them once.
    AssertionError: a tool is missing, or Maven fails."""
    assert not missing(), f"not here: {', '.join(missing())}"
    libraries = BUILD / f"{name}.{sha256(pom.read_bytes()).hexdigest()[:8]}"
    BUILD.mkdir(exist_ok=True)
    with libraries.with_name(f"{libraries.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libraries.exists():
            with tempfile.TemporaryDirectory(dir=BUILD) as temporary:
                jars = Path(temporary) / "jars"
                done = subprocess.run(
                    (
                        "mvn",
                        "-q",
                        "-B",
                        "-f",
                        str(pom),
                        *options,
                        f"-DoutputDirectory={jars}",
                        COPY,
                    ),
                    capture_output=True,
                    text=True,
                    check=False,
                    env=os.environ | MAVEN_OPTIONS,
                )
                assert done.returncode == 0, f"mvn: {done.stdout}{done.stderr}"
                jars.rename(libraries)
    return f"{libraries}/*"


def archived(classpath: str) -> tuple[str, ...]:
    """Options for a JVM that takes a broker's classes from an archive, not from their JARs. It
    starts with half the CPU time. An archive that does not fit the JVM is ignored.

    The first broker with this class path writes the archive when it ends."""
    libraries = Path(classpath).parent
    home = libraries.with_name(f"{libraries.name}.classes")
    name = "broker.jsa"
    with once(home) as new, tempfile.TemporaryDirectory(prefix="kafka-") as directory:
        if new:
            options = (*QUICK, f"-XX:ArchiveClassesAtExit={new / name}")
            server = KafkaServer(classpath, Path(directory), [Path(directory, "log")], {}, options)
            try:
                server.start()
                server.create_topic("events")
                server.kill(0, signal.SIGTERM)
            finally:
                server.close()
    return (f"-XX:SharedArchiveFile={home / name}", "-Xshare:auto")


def _format(log_dir: Path, node_id: int) -> None:
    """Writes the same file as Kafka's StorageTool, without a JVM."""
    log_dir.mkdir(parents=True, exist_ok=True)
    properties = log_dir / "meta.properties"
    if not properties.exists():
        properties.write_text(
            f"version=1\nnode.id={node_id}\n"
            f"cluster.id={_uuid(b'tests-of-kafka-0')}\n"
            f"directory.id={_uuid(b'directory-of-%03d' % (node_id % 1000))}\n"
        )


def _uuid(data: bytes) -> str:
    assert len(data) == 16
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
