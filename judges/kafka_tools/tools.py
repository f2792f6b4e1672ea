"""Kafka's own tools: the arguments of each, its first version, and the expected output.

Each runs independently: the records and the group's offset that it reads were written before
(data.py), and its own records go to a topic of its own."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .data import GROUP, RECORDS, TOPIC

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The data for a tool: `written` is its own existing topic, `file` is one that it may read;
    `version` is the tool's."""

    version: Version
    bootstrap: str
    written: str
    file: str

    @property
    def server(self) -> tuple[str, str]:
        """The option with the brokers' addresses, which differed for producers for a long time."""
        return ("--bootstrap-server" if self.version >= (2, 5) else "--broker-list", self.bootstrap)


@dataclass(frozen=True, slots=True)
class Tool:
    """`classes` are its names, of which a version has one. `check` returns an error in its output,
    or nothing. `writes` is the number of records in its topic afterwards."""

    name: str
    classes: Sequence[str]
    since: Version
    arguments: Callable[[Place], Sequence[str]]
    check: Callable[[str], str]
    until: Version = (99,)
    stdin: bytes = b""
    file: str = ""
    writes: int = 0
    goes_on: bool = False  # does not exit when it is done, in some versions
    makes: str = ""  # a topic that it creates besides its own, always with this name


def names(pattern: str) -> Callable[[str], str]:
    """The output must match the pattern."""

    def check(output: str) -> str:
        return "" if re.search(pattern, output) else f"it does not say {pattern}"

    return check


def _nothing(_: str) -> str:
    return ""


def events(output: str, name: str) -> list[dict[str, object]]:
    """The lines of JSON with this name, from Verifiable… and TransactionalMessageCopier."""
    found = []
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("name") == name:
                found.append(event)
    return found


def acknowledged(output: str) -> str:
    """Checks that all records of a VerifiableProducer were acknowledged."""
    totals = events(output, "tool_data")
    acked = totals[-1].get("acked") if totals else len(events(output, "producer_send_success"))
    return "" if acked == RECORDS else f"{acked} of {RECORDS} acknowledged"


def consumed(output: str) -> str:
    """Checks that a VerifiableConsumer read all records, and committed."""
    counts = [event.get("count") for event in events(output, "records_consumed")]
    read = sum(count for count in counts if isinstance(count, int))
    if read != RECORDS:
        return f"{read} of {RECORDS} read"
    done = any(event.get("success") for event in events(output, "offsets_committed"))
    return "" if done else "offsets were not committed"


def printed(output: str) -> str:
    """Checks that a console consumer printed all records, in order."""
    lines = [line for line in output.splitlines() if re.fullmatch(r"record-\d+", line)]
    return "" if lines == [f"record-{n}" for n in range(RECORDS)] else f"{len(lines)} records"


def _compatibility(place: Place) -> Sequence[str]:
    supported = ["offsets-for-times", "cluster-id"]
    if place.version >= (0, 11):
        supported += ["create-topics", "describe-acls"]
    if place.version >= (2,):
        supported += ["describe-configs"]
    if place.version >= (3,):
        supported += ["idempotent-producer"]
    options = [word for name in supported for word in (f"--{name}-supported", "True")]
    nodes = ("--num-cluster-nodes", "1") if place.version >= (0, 11) else ()
    where = ("--bootstrap-server", place.bootstrap, "--topic", place.written)
    return (*where, *options, *nodes, "--expect-record-too-large-exception", "False")


def _new_consumer(place: Place) -> Sequence[str]:
    """Before 1.0, tools that also worked with ZooKeeper needed an option."""
    return ("--new-consumer",) if place.version < (1,) else ()


def _patience(place: Place) -> Sequence[str]:
    """The time limit of kafka-consumer-groups, which gives up after 5 s by default."""
    return ("--timeout", "60000") if place.version >= (0, 11) else ()


def _topics(*words: str) -> Callable[[Place], Sequence[str]]:
    return lambda at: ("--bootstrap-server", at.bootstrap, "--topic", at.written, *words)


_CORE: Final = "kafka.tools."
_ADMIN: Final = "kafka.admin."
_TOOLS: Final = "org.apache.kafka.tools."
_TOPICS: Final = (f"{_TOOLS}TopicCommand", f"{_ADMIN}TopicCommand")
_GROUPS: Final = (f"{_TOOLS}consumer.group.ConsumerGroupCommand", f"{_ADMIN}ConsumerGroupCommand")
_CONFIGS: Final = (f"{_TOOLS}ConfigCommand", f"{_ADMIN}ConfigCommand")
_LINES: Final = "".join(f"line-{n}\n" for n in range(100)).encode()
_LIMIT: Final = "retention.ms=123456789"


def _settings(at: Place) -> Sequence[str]:
    return (
        "--bootstrap-server",
        at.bootstrap,
        "--entity-type",
        "topics",
        "--entity-name",
        at.written,
    )


TOOLS: Final = (
    Tool(
        "VerifiableProducer",
        [f"{_TOOLS}VerifiableProducer"],
        (0, 9),
        lambda at: (*at.server, "--topic", at.written, "--max-messages", str(RECORDS)),
        acknowledged,
        writes=RECORDS,
    ),
    Tool(
        "VerifiableConsumer",
        [f"{_TOOLS}VerifiableConsumer"],
        (0, 9),
        lambda at: (
            *(*at.server, "--topic", TOPIC, "--group-id", at.written),
            *("--max-messages", str(RECORDS), "--reset-policy", "earliest"),
        ),
        consumed,
        goes_on=True,
    ),
    Tool(
        "VerifiableConsumer, KIP-848",
        [f"{_TOOLS}VerifiableConsumer"],
        (4,),
        lambda at: (
            *(*at.server, "--topic", TOPIC, "--group-id", at.written, "--reset-policy", "earliest"),
            *("--max-messages", str(RECORDS), "--group-protocol", "consumer"),
        ),
        consumed,
        goes_on=True,
    ),
    Tool(
        "TransactionalMessageCopier",
        [f"{_TOOLS}TransactionalMessageCopier"],
        (0, 11),
        lambda at: (
            *(
                "--broker-list",
                at.bootstrap,
                "--input-topic",
                TOPIC,
                "--input-partition",
                "0",
                "--output-topic",
                at.written,
            ),
            *("--consumer-group", at.written, "--transactional-id", at.written),
            *("--transaction-size", "100", "--max-messages", str(RECORDS)),
        ),
        names(rf'"consumed":"?{RECORDS}\b'),
        writes=RECORDS + 10,  # a marker for each transaction
    ),
    Tool(
        "ClientCompatibilityTest",
        [f"{_TOOLS}ClientCompatibilityTest"],
        (0, 10, 2),
        _compatibility,
        names("All consumer tests passed|SUCCESS"),
        makes="newtopic",
    ),
    Tool(
        "ProducerPerformance",
        ["org.apache.kafka.clients.tools.ProducerPerformance"],
        (0, 8),
        lambda at: (at.written, str(RECORDS), "100", "-1", f"bootstrap.servers={at.bootstrap}"),
        _nothing,
        until=(0, 9),
        writes=RECORDS,
    ),
    Tool(
        "console producer",
        [f"{_TOOLS}ConsoleProducer", f"{_CORE}ConsoleProducer"],
        (0, 8),
        lambda at: (*at.server, "--topic", at.written),
        _nothing,
        stdin=_LINES,
        writes=100,
    ),
    Tool(
        "console consumer",
        [f"{_TOOLS}consumer.ConsoleConsumer", f"{_CORE}ConsoleConsumer"],
        (0, 9),
        lambda at: (
            *(*_new_consumer(at), "--bootstrap-server", at.bootstrap, "--topic", TOPIC),
            *("--from-beginning", "--max-messages", str(RECORDS)),
        ),
        printed,
    ),
    Tool(
        "simple consumer shell",
        [f"{_CORE}SimpleConsumerShell"],
        (0, 8),
        lambda at: (
            *("--broker-list", at.bootstrap, "--topic", TOPIC, "--partition", "0"),
            *("--offset", "-2", "--no-wait-at-logend"),
        ),
        printed,
        until=(2,),
    ),
    Tool(
        "kafka-get-offsets",
        [f"{_TOOLS}GetOffsetShell", f"{_CORE}GetOffsetShell"],
        (0, 8),
        lambda at: (
            "--bootstrap-server" if at.version >= (3,) else "--broker-list",
            *(at.bootstrap, "--topic", TOPIC, "--time", "-1"),
        ),
        names(rf"{TOPIC}:0:{RECORDS}\b"),
    ),
    Tool(
        "kafka-consumer-groups list",
        _GROUPS,
        (0, 9),
        lambda at: (*_new_consumer(at), "--bootstrap-server", at.bootstrap, "--list"),
        names(rf"(?m)^{GROUP}\b"),
    ),
    Tool(
        "kafka-consumer-groups describe",
        _GROUPS,
        (0, 10, 2),
        lambda at: (
            *(*_new_consumer(at), "--bootstrap-server", at.bootstrap),
            *("--describe", "--group", GROUP, *_patience(at)),
        ),
        names(rf"{TOPIC}\s+0\s+400\s+{RECORDS}\s+600\b"),
    ),
    Tool(
        "kafka-consumer-groups reset",
        _GROUPS,
        (0, 11),
        lambda at: (
            *(*_new_consumer(at), "--bootstrap-server", at.bootstrap, "--group", at.written),
            *("--topic", TOPIC, "--reset-offsets", "--to-offset", "7", "--execute"),
            *_patience(at),
        ),
        names(rf"{TOPIC}\s+0\s+7\b"),
    ),
    Tool(
        "kafka-broker-api-versions",
        [f"{_ADMIN}BrokerApiVersionsCommand", f"{_TOOLS}BrokerApiVersionsCommand"],
        (0, 10, 2),
        lambda at: ("--bootstrap-server", at.bootstrap),
        names(r"Fetch\(1\): \d+ to \d+"),
    ),
    Tool(
        "kafka-delete-records",
        [f"{_TOOLS}DeleteRecordsCommand", f"{_ADMIN}DeleteRecordsCommand"],
        (0, 11),
        lambda at: ("--bootstrap-server", at.bootstrap, "--offset-json-file", at.file),
        names(r"low_watermark: 0\b"),
        file='{"version": 1, "partitions": [{"topic": "%s", "partition": 0, "offset": 0}]}',
    ),
    Tool(
        "kafka-log-dirs",
        [f"{_TOOLS}LogDirsCommand", f"{_ADMIN}LogDirsCommand"],
        (1,),
        lambda at: ("--bootstrap-server", at.bootstrap, "--describe", "--topic-list", TOPIC),
        names(rf'"partition":"{TOPIC}-0","size":[1-9]'),
    ),
    Tool(
        "kafka-topics describe",
        _TOPICS,
        (2, 2),
        _topics("--describe"),
        names(r"PartitionCount: ?1\b"),
    ),
    Tool("kafka-topics alter", _TOPICS, (2, 2), _topics("--alter", "--partitions", "3"), _nothing),
    Tool("kafka-topics delete", _TOPICS, (2, 2), _topics("--delete"), _nothing),
    Tool(
        "kafka-topics create",
        _TOPICS,
        (2, 2),
        lambda at: (
            *("--bootstrap-server", at.bootstrap, "--create", "--topic", f"{at.written}-new"),
            *("--partitions", "2", "--replication-factor", "1", "--config", _LIMIT),
        ),
        names("Created topic"),
    ),
    Tool(
        "kafka-configs alter",
        _CONFIGS,
        (2, 5),
        lambda at: (*_settings(at), "--alter", "--add-config", _LIMIT),
        names("Completed updating config"),
    ),
    Tool(
        "kafka-configs describe",
        _CONFIGS,
        (2, 5),
        lambda at: (*_settings(at), "--describe", "--all"),
        names(r"retention\.bytes=-1"),
    ),
    Tool(
        "kafka-configs of a broker",
        _CONFIGS,
        (2, 5),
        lambda at: (
            *("--bootstrap-server", at.bootstrap, "--entity-type", "brokers"),
            *("--entity-name", "0", "--describe", "--all"),
        ),
        names(r"num\.partitions=4"),
    ),
)
