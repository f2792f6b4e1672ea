"""All applications, in the order of the document, and those that could not be had."""

from typing import Final

from . import (
    burrow,
    connect,
    flume,
    kafka_go,
    kcat,
    logstash,
    node,
    openresty,
    rsyslog,
    spark,
    storm,
    telegraf,
)
from .application import Application

APPLICATIONS: Final[tuple[Application, ...]] = (
    *openresty.APPLICATIONS,
    *rsyslog.APPLICATIONS,
    *burrow.APPLICATIONS,
    *telegraf.APPLICATIONS,
    *kafka_go.APPLICATIONS,
    *kcat.APPLICATIONS,
    *flume.APPLICATIONS,
    *connect.APPLICATIONS,
    *spark.APPLICATIONS,
    *storm.APPLICATIONS,
    *logstash.APPLICATIONS,
    *node.APPLICATIONS,
)

_NO_GO: Final = "its Go module could not be fetched"
_NO_RUBY: Final = "plugins and clients of Ruby are gems, which were not fetched"
_NO_HEX: Final = "Erlang is in Debian; the packages of Hex are not, and were not fetched"

NOT_RUN: Final = (
    ("Filebeat and the other Beats", f"{_NO_GO}; Sarama inside, as in Telegraf and Burrow"),
    (
        "Burrow's lag, behind the gateway",
        "run, and it cannot: it reads __consumer_offsets there, and does not know version 4 of the "
        'records that Kafka 4 writes into it ("reason": "value version")',
    ),
    ("kafka_exporter, Burrow 1.3 and later", f"{_NO_GO}; Sarama inside"),
    ("terraform-provider-kafka", f"{_NO_GO}; Sarama inside"),
    (
        "Logstash itself, and its inputs 1 and 2",
        "Logstash itself was not run: the clients of versions 4 to 8 were run with the plugin's "
        "settings; those of 1 and 2 find brokers in their ZooKeeper, and Kafka 4 has none",
    ),
    ("ruby-kafka", _NO_RUBY),
    ("PHP's rdkafka", "Debian 12 has no package of it; librdkafka inside, as in kcat"),
    ("brod, broadway_kafka, kafka_ex", _NO_HEX),
    ("ClickHouse", "Debian 12 has no package of it; librdkafka inside, as in kcat"),
    ("Kong and APISIX", "no package of them; lua-resty-kafka inside, as in nginx with Lua"),
    ("Debezium's connectors", "not tried; a worker of Connect speaks to Kafka for them"),
    (
        "Flume 1.9.0, Kafka source",
        "in this set-up it read nothing, from Kafka 3.9.1 either, and did not say why",
    ),
    ("NiFi's processors", "not tried; a Java client inside"),
)
