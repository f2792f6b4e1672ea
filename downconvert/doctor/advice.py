"""Advice for each client that would break: one table, by the names that clients give themselves.

A row is found by the software that a client names (KIP-511: Java since 2.4, librdkafka since 1.4),
else by its library's default client id. The last rows depend only on the refused APIs.
`docs/kafka-4-broke-my-client.md` has the same advice for people.

Sources: the libraries' own defaults for client ids; the runs of docs/old-clients.md; KAFKA-18659
and KAFKA-19444."""

import re
from dataclasses import dataclass
from typing import Final

from .releases import version_of


@dataclass(frozen=True, slots=True)
class Advice:
    """A row of the table."""

    name: str  # of the client, in common use
    what: str  # the advice: what to do
    software: str = ""  # pattern of the name that it gives itself
    client_id: str = ""  # pattern of the client id
    below: tuple[int, ...] = ()  # only releases before this one; empty: all


_GATEWAY: Final = "until then the gateway in front of it"

TABLE: Final = (
    Advice(
        "a broker of this cluster",
        "raise inter.broker.protocol.version before the upgrade: its replicas fetch as old ones do",
        client_id=r"broker-\d+-fetcher-\d+",
    ),
    Advice(
        "librdkafka",
        "1.8 or later (2.x is best), and with it confluent-kafka, node-rdkafka, PHP's rdkafka, "
        "omkafka, ClickHouse: before 1.8 it asks ListOffsets 0 whatever the broker offers",
        software=r"librdkafka|confluent-kafka.*|.*rdkafka.*",
        below=(1, 8),
    ),
    Advice(
        "librdkafka",
        "2.0 or later; take out broker.version.fallback=0.… and api.version.request=false, which "
        "pin any version to requests of that age",
        software=r"librdkafka|confluent-kafka.*|.*rdkafka.*",
    ),
    Advice(
        "librdkafka",
        "2.0 or later; take out broker.version.fallback=0.… and api.version.request=false, which "
        "pin any version to requests of that age",
        client_id=r"rdkafka|confluent-kafka.*",
    ),
    Advice(
        "a Java client",
        "kafka-clients 2.1 or later",
        software=r"apache-kafka-java",
    ),
    Advice(
        "Sarama",
        "set Config.Version to V2_1_0_0 or later; an upgrade alone does not help where an old one "
        "is set",
        client_id=r"sarama",
        software=r"sarama",
    ),
    Advice(
        "Telegraf",
        'set version = "2.6.0" in the plugin\'s section',
        client_id=r"(?i:telegraf)",
    ),
    Advice(
        "Beats",
        "set version: 2.1.0 in output.kafka",
        client_id=r"(?i:beats|filebeat|metricbeat|packetbeat|winlogbeat)",
    ),
    Advice(
        "kafka-python",
        "2.0 or later, and take out api_version=(0, …)",
        client_id=r"kafka-python.*",
        software=r"kafka-python",
    ),
    Advice(
        "aiokafka",
        'take out api_version="0.…"; the default asks the broker',
        client_id=r"aiokafka.*",
        software=r"aiokafka",
    ),
    Advice(
        "pykafka",
        f"nobody maintains it: kafka-python or confluent-kafka; {_GATEWAY}",
        client_id=r"pykafka",
    ),
    Advice(
        "kafka-node",
        f"nobody maintains it: kafkajs or a client on librdkafka; {_GATEWAY}",
        client_id=r"kafka-node-client.*",
    ),
    Advice(
        "no-kafka",
        f"nobody maintains it: kafkajs or a client on librdkafka; {_GATEWAY}",
        client_id=r"no-kafka-client.*",
    ),
    Advice("kafkajs", "1.8 or later", client_id=r"kafkajs", software=r"kafkajs"),
    Advice(
        "lua-resty-kafka (OpenResty, Kong, APISIX)",
        "no release asks Produce 3: the gateway",
        client_id=r"worker\d+",
    ),
    Advice(
        "a Java client without a name of its own",
        "kafka-clients 2.1 or later, and with it Logstash 6, Flume 1.9, Storm, Spark",
        client_id=r"(?:consumer|producer|adminclient)-.*|console-(?:consumer|producer).*",
    ),
)

# If only the refused APIs are known: the first row with a refused API counts.
BY_API: Final = {
    "Fetch": "a consumer of Kafka 0.10 or older, or one that is pinned to it: upgrade or unpin it; "
    "else the gateway",
    "Produce": "a producer of Kafka 0.10 or older, or one that is pinned to it: upgrade or unpin "
    "it; else the gateway",
    "JoinGroup": "Kafka 4.0.1 and later take it again: skip 4.0.0",
    "ListOffsets": "it asks offsets as clients before 0.10.1 and librdkafka before 1.8 do: upgrade "
    "it; else the gateway",
}
ELSE: Final = "upgrade it; else the gateway"


def advice_for(client_id: str, software: str, refused: set[str]) -> tuple[str, str]:
    """The client's common name, and the advice. `refused`: names of APIs. The name is empty for an
    unknown client."""
    if refused == {"JoinGroup"}:
        return "", BY_API["JoinGroup"]
    name, _, version = software.rpartition(" ")
    if not version_of(version):
        name, version = software, ""
    for row in TABLE:
        if row.software and name:
            found = re.fullmatch(row.software, name) is not None
            found &= not row.below or () < version_of(version) < row.below
        else:
            found = (
                bool(row.client_id) and not name and bool(re.fullmatch(row.client_id, client_id))
            )
        if found:
            return row.name, row.what
    return "", next((what for api, what in BY_API.items() if api in refused), ELSE)
