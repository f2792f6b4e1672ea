"""The settings of a broker: Kafka's names and defaults, except where the reason is given here."""

from dataclasses import FrozenInstanceError, fields
from typing import Any, Final

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import BrokerConfig
from downconvert.serving.conversions import DEFAULT_RULES

# By Kafka's names, as in its documentation of 3.9.
KAFKAS: Final = {
    "num.partitions": 1,
    "fetch.max.bytes": 57_671_680,
    "message.max.bytes": 1_048_588,
    "socket.request.max.bytes": 104_857_600,
    "min.insync.replicas": 1,
    "replica.lag.time.max.ms": 30_000,
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.initial.rebalance.delay.ms": 3_000,
    "offset.metadata.max.bytes": 4_096,
    "offsets.retention.minutes": 10_080,
    "offsets.retention.check.interval.ms": 600_000,
    "transaction.max.timeout.ms": 900_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 3_600_000,
    "transactional.id.expiration.ms": 604_800_000,
    "log.initial.task.delay.ms": 30_000,
    "log.retention.check.interval.ms": 300_000,
    "log.cleaner.dedupe.buffer.size": 134_217_728,
    "producer.id.expiration.ms": 86_400_000,
    "producer.id.expiration.check.interval.ms": 600_000,
}
OTHERS: Final[dict[str, Any]] = {
    # A directory is only read, unless the operator says otherwise.
    "is_writable": False,
    "auto_create_topics": False,
    "node_id": 0,
    "cluster_id": "lazy-downconvert",
    # Kafka's 1,000 slots, under a longer name.
    "fetch_session_slots": 1_000,
    # The number of the internal topics' partitions is the directory's.
    "offsets_topic_num_partitions": None,
    "transaction_state_log_num_partitions": None,
    # Kafka has no limits of these, so clients could fill the memory or the disk.
    "group_max_size": 2_000,
    "group_metadata_max_bytes": 16_777_216,
    "groups_memory_max_bytes": 268_435_456,
    "groups_max": 100_000,
    "transactional_ids_max": 100_000,
    "log_cleaner_io_max_bytes_per_second": 10_485_760,
    # Kafka has no such settings.
    "cleans_up": True,
    "policy": ConversionPolicy(),
    "recode_rules": DEFAULT_RULES,
    "topics": {},
    "conversions_kept_bytes": 16_777_216,
}


def test_the_defaults_are_kafkas_where_it_has_such_a_setting() -> None:
    config = BrokerConfig()
    found = {one.name: getattr(config, one.name) for one in fields(BrokerConfig)}
    assert found == OTHERS | {name.replace(".", "_"): value for name, value in KAFKAS.items()}


def test_a_setting_is_given_by_name_and_stays() -> None:
    config = BrokerConfig(node_id=7)
    with pytest.raises(FrozenInstanceError):
        config.node_id = 8  # type: ignore[misc]
    with pytest.raises(TypeError):
        BrokerConfig(7)  # type: ignore[call-arg]


def test_brokers_share_no_settings_that_can_change() -> None:
    assert BrokerConfig().topics is not BrokerConfig().topics
