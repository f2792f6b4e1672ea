"""Every client, version, pinned protocol and mode that is tried: 182, as a table.

`fetch` is the version of the Fetch requests that it sends, which says what it can be shown: below
2, messages of v0; below 4, of v1. A client that asks the server (`default`, `auto`) sends its
newest, where the server knows it.

Not here: how clients are installed (install.py), which of them fail by themselves (faults.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

# Where clients come from; C is the library that Rust's bindings bring along.
PYPI, MAVEN, NPM, GO, RUST, C = "pypi", "java", "npm", "go", "rust", "c"
REGISTRIES: Final = (PYPI, MAVEN, NPM, GO, RUST, C)


@dataclass(frozen=True, slots=True)
class Client:
    """A package at a version, and the program that uses it."""

    registry: str
    name: str
    version: str
    program: str

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"


@dataclass(frozen=True, slots=True)
class Combination:
    """A client with its protocol pinned, or not, that reads in some mode."""

    client: Client
    pin: str
    mode: str  # assign, group; simple and shell without a choice; offsets: assigned, and committed
    fetch: int

    @property
    def magic(self) -> int:
        """The format that it gets."""
        return 0 if self.fetch < 2 else 1 if self.fetch < 4 else 2

    def __str__(self) -> str:
        return f"{self.client.name} {self.client.version} {self.pin} {self.mode}"


BOTH: Final = ("assign", "group")
ASSIGN: Final = ("assign",)

# Client, versions, what it is pinned to, modes, version of Fetch.
_Row = tuple[str, str, str, Sequence[str], int]
_ROWS: Final[tuple[_Row, ...]] = (
    ("confluent-kafka", "2.16.1 2.0.2", "default", BOTH, 11),
    ("confluent-kafka", "2.16.1 2.0.2", "0.8.2.2", ASSIGN, 0),
    ("confluent-kafka", "2.16.1 2.0.2", "0.9.0.1", BOTH, 1),
    ("confluent-kafka", "2.16.1 2.0.2", "0.10.0.1", BOTH, 11),
    ("librdkafka", "0.9.5", "default", BOTH, 2),
    ("librdkafka", "0.11.6 1.0.0", "default", BOTH, 4),
    ("librdkafka", "1.4.2", "default", BOTH, 11),
    ("librdkafka", "0.9.5 0.11.6 1.0.0 1.4.2", "0.8.2.2", ASSIGN, 0),
    ("librdkafka", "0.9.5 0.11.6 1.0.0 1.4.2", "0.9.0.1", BOTH, 1),
    ("kafka-python", "0.9.5", "default", ("simple",), 0),
    ("kafka-python", "1.0.2 1.3.5 1.4.7 2.0.2 2.3.3 3.0.12", "0.8.2", ASSIGN, 0),
    ("kafka-python", "1.0.2", "0.9", BOTH, 0),
    ("kafka-python", "1.3.5 1.4.7 2.0.2 2.3.3 3.0.12", "0.9", BOTH, 1),
    ("kafka-python", "1.3.5 1.4.7 2.0.2 2.3.3 3.0.12", "0.10", BOTH, 2),
    ("kafka-python", "1.4.7 2.0.2", "0.11", BOTH, 3),
    ("kafka-python", "2.3.3 3.0.12", "0.11", BOTH, 5),
    ("kafka-python", "1.3.5", "default", BOTH, 3),
    ("kafka-python", "1.4.7 2.0.2", "default", BOTH, 4),
    ("kafka-python", "2.3.3 3.0.12", "default", BOTH, 10),
    ("aiokafka", "0.8.1", "0.9", BOTH, 1),
    ("aiokafka", "0.8.1", "0.10.0", BOTH, 2),
    ("aiokafka", "0.8.1", "0.11", BOTH, 4),
    ("aiokafka", "0.8.1", "auto", BOTH, 4),
    ("aiokafka", "0.14.0", "auto", BOTH, 11),
    ("pykafka", "2.8.0", "0.8.2", ("simple",), 0),
    ("pykafka", "2.8.0", "0.9.0", ("simple", "offsets"), 1),
    ("pykafka", "2.8.0", "0.10.0", ("simple",), 2),
    ("kafka-clients", "0.9.0.1", "default", BOTH, 1),
    ("kafka-clients", "0.10.0.1", "default", BOTH, 2),
    ("kafka-clients", "0.10.2.2", "default", BOTH, 3),
    ("kafka-clients", "0.11.0.3", "default", BOTH, 5),
    ("kafka-clients", "1.1.1", "default", BOTH, 7),
    ("kafka-clients", "2.0.1", "default", BOTH, 8),
    ("kafka-clients", "3.9.1 4.4.0", "default", BOTH, 17),
    ("kafka", "0.8.2.2", "1024k", ("simple",), 0),
    ("kafka", "0.8.2.2", "64k", ("simple",), 0),
    ("kafka", "0.8.2.2", "default", ("shell",), 0),
    ("kafka-node", "2.0.1", "default", BOTH, 0),
    ("kafka-node", "2.6.1", "default", BOTH, 2),
    ("kafka-node", "2.6.1", "16384k", ASSIGN, 2),
    ("kafka-node", "5.0.0", "default", ASSIGN, 0),
    ("kafka-node", "5.0.0", "default", ("group",), 2),
    ("kafka-node", "5.0.0", "64k", ("group",), 2),
    ("kafkajs", "1.4.6", "default", ("group",), 4),
    ("kafkajs", "1.8.1", "default", ("group",), 7),
    ("kafkajs", "2.2.4", "default", ("group",), 11),
    ("no-kafka", "3.4.3", "default", BOTH, 0),
    ("sarama", "1.19.0 1.23.1 1.30.0 1.38.1 1.61.1", "0.8.2.2", ASSIGN, 0),
    ("sarama", "1.19.0", "0.9.0.0", ASSIGN, 0),
    ("sarama", "1.23.1 1.30.0 1.38.1 1.61.1", "0.9.0.0", ASSIGN, 1),
    ("sarama", "1.19.0 1.23.1 1.30.0 1.38.1 1.61.1", "0.10.0.0", ASSIGN, 2),
    ("sarama", "1.19.0 1.23.1 1.30.0 1.38.1 1.61.1", "0.10.2.0", BOTH, 3),
    ("sarama", "1.19.0 1.23.1 1.30.0 1.38.1", "0.11.0.0", BOTH, 4),
    ("sarama", "1.61.1", "0.11.0.0", BOTH, 5),
    ("sarama", "1.19.0 1.23.1", "2.0.0", BOTH, 4),
    ("sarama", "1.30.0 1.38.1", "2.0.0", BOTH, 7),
    ("sarama", "1.61.1", "2.0.0", BOTH, 8),
    ("kafka-go", "0.1.0 0.2.0", "default", BOTH, 1),
    ("kafka-go", "0.4.51", "default", BOTH, 10),
    ("kafka-rust", "0.8.0 0.10.0", "default", ("assign", "offsets"), 0),
)

# The registry and the program of each client.
_CLIENTS: Final = {
    "confluent-kafka": (PYPI, "read_confluent.py"),
    "librdkafka": (C, "read"),
    "kafka-python": (PYPI, "read_kafka_python.py"),
    "aiokafka": (PYPI, "read_aiokafka.py"),
    "pykafka": (PYPI, "read_pykafka.py"),
    "kafka-clients": (MAVEN, "Clients"),
    "kafka": (MAVEN, "Simple"),
    "kafka-node": (NPM, "kafka_node.js"),
    "kafkajs": (NPM, "kafkajs.js"),
    "no-kafka": (NPM, "no_kafka.js"),
    "sarama": (GO, "sarama"),
    "kafka-go": (GO, "kafka_go"),
    "kafka-rust": (RUST, "kafka"),
}


def all_combinations() -> list[Combination]:
    return list(_combinations())


def some_combinations() -> list[Combination]:
    """Clients from PyPI and Maven: each version at least once, each format, groups of every age."""
    return [
        one
        for one in _combinations()
        if one.client.registry in (PYPI, MAVEN)
        and ((one.mode == "group") == (one.pin in GROUPS_OF.get(one.client.folder, ())))
        and one.pin not in SKIPPED_OF.get(one.client.folder, ())
    ]


# For a quick look: pins whose group is taken instead of the assignment, and pins that are left out.
GROUPS_OF: Final = {
    "kafka-python-1.0.2": ("0.9",),
    "kafka-python-1.4.7": ("0.10", "default"),
    "kafka-python-2.3.3": ("0.9", "0.11"),
    "kafka-python-3.0.12": ("default",),
    "aiokafka-0.8.1": ("0.10.0",),
    "confluent-kafka-2.0.2": ("0.9.0.1",),
    "confluent-kafka-2.16.1": ("default",),
    "kafka-clients-0.9.0.1": ("default",),
    "kafka-clients-0.10.2.2": ("default",),
    "kafka-clients-2.0.1": ("default",),
    "kafka-clients-4.4.0": ("default",),
}
SKIPPED_OF: Final = {
    "kafka-python-1.3.5": ("0.9", "0.10"),
    "kafka-python-1.4.7": ("0.9", "0.11"),
    "kafka-python-2.0.2": ("0.8.2", "0.9", "0.11"),
    "kafka-python-2.3.3": ("0.8.2", "0.10", "default"),
    "kafka-python-3.0.12": ("0.8.2", "0.10", "0.11"),
    "aiokafka-0.8.1": ("0.11", "auto"),
    "pykafka-2.8.0": ("0.8.2",),
    "confluent-kafka-2.16.1": ("0.10.0.1", "0.8.2.2"),
    "confluent-kafka-2.0.2": ("0.10.0.1", "default"),
}


def _combinations() -> Iterator[Combination]:
    for name, versions, pin, modes, fetch in _ROWS:
        registry, program = _CLIENTS[name]
        for version in versions.split():
            for mode in modes:
                used = program
                if mode == "shell":
                    used = "Shell"
                elif (name, version) == ("kafka-python", "0.9.5"):
                    used = "read_kafka_python_simple.py"
                yield Combination(Client(registry, name, version, used), pin, mode, fetch)
