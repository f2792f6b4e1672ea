"""The rules of a fetch. Each has its source, and the clients that suffer if it is broken. The
behaviour of real clients is from the runs of docs/old-clients.md."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by its name."""

    name: str
    what: str
    source: str
    hurts: str


RULES: Final = {
    rule.name: rule
    for rule in (
        Rule(
            "answer",
            "A version that ApiVersions offers is answered, without an error.",
            "KIP-35",
            "every client of that version",
        ),
        Rule(
            "format",
            "Fetch 0-1 get v0, 2-3 v1 or older, and nothing newer.",
            "FetchRequest.json; KIP-32, KIP-98",
            "every old client: it reads garbage, or stops",
        ),
        Rule(
            "damage",
            "Messages are whole up to the last, and their checksums are right.",
            "the message formats; DefaultRecordBatch, LegacyRecord",
            "every client that compares checksums: it stops there for good",
        ),
        Rule(
            "filler",
            "Only the beginning of the next message may follow the last whole one.",
            "LazyDownConversionRecordsSend fills up what it promised (KIP-283)",
            "kafka-node 2 begins again at offset 0, for ever; kafka-go 0.1 and 0.2 stop; clients "
            "that find nothing else take it for a record larger than the fetch size",
        ),
        Rule(
            "stuck",
            "A response below the end of the log has a record at or after the fetch offset, if the "
            "limit has room for one; from Fetch 3 on, always.",
            "KIP-74; a log of an old broker has no batches without records",
            "every client below Fetch 4: it asks for the same again, for ever",
        ),
        Rule(
            "once",
            "Offsets increase within a response.",
            "ConvertedRecords; the iterator of KIP-283 skips one batch where it left out several",
            "kafka-clients 0.9 to 0.10.2, librdkafka 0.9, kafka-python below 0.11, kafka-node and "
            "no-kafka hand the records out twice",
        ),
        Rule(
            "equal",
            "Each record has the key, the value, the time (from v1 on) and the headers (in v2) "
            "that were sent, at its offset.",
            "the message formats; KIP-32 for the broker's time",
            "all clients that read the topic",
        ),
        Rule(
            "all",
            "All records that were not aborted are read, and nothing else.",
            "KIP-98 for aborted ones, which readers without isolation may be given",
            "all clients that read the topic",
        ),
        Rule(
            "limit",
            "Below Fetch 3, a response has no more whole messages than fit the partition's limit, "
            "except the first.",
            "KIP-74; ReplicaManager: minOneMessage is false below version 3",
            "clients with a buffer of that size",
        ),
        Rule(
            "codec",
            "Records have codecs that the version knows: zstd from Fetch 10 on only.",
            "KIP-110: brokers answer error 76, which no old client knows",
            "every client below Fetch 10 of a topic with zstd: it reads nothing, and tries again",
        ),
    )
}

# The versions that clients send. docs/old-clients.md has the whole table.
CLIENTS: Final = (
    (0, "0.8 clients, kafka-node, no-kafka, kafka-rust, clients pinned to 0.8"),
    (1, "0.9 clients, kafka-go 0.1 and 0.2, clients pinned to 0.9"),
    (2, "0.10.0 clients, librdkafka 0.9, kafka-node 2.6 and 5"),
    (3, "0.10.1 and 0.10.2 clients"),
    (4, "librdkafka 0.11 and 1.0, kafka-python 1.4 and 2.0, Sarama"),
    (5, "0.11 clients"),
    (6, "1.0 clients"),
    (7, "1.1 clients, kafkajs 1.8"),
    (8, "2.0 clients"),
    (9, "2.1 clients, kafka-python 2.3 and 3.0, kafka-go 0.4"),
    (11, "2.3 clients, librdkafka from 1.4 on, kafkajs 2"),
    (12, "2.7 clients"),
    (13, "3.1 clients and later"),
)


def clients_of(version: int) -> str:
    """The clients that send Fetch in this version."""
    return next(words for first, words in reversed(CLIENTS) if version >= first)
