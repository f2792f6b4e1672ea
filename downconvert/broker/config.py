"""The settings of a broker. Where Kafka has a setting, its name, unit and default are used."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from downconvert import ConversionPolicy
from downconvert.serving.conversions import DEFAULT_RULES, RecodeRule
from records.units import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of one broker. Times in milliseconds, sizes in bytes."""

    node_id: int = 0
    cluster_id: str = "lazy-downconvert"
    is_writable: bool = False  # if False, all requests that change something are refused
    auto_create_topics: bool = False  # when a client requests their metadata
    num_partitions: int = 1  # of topics that are created without a number
    # Sizes are exact by default. If all records must be recompressed, an estimate would send the
    # first record 10 (lz4) to 30 ms (gzip) earlier for each MB. But the response would end in
    # filler or a truncated record, and some clients fail on both.
    policy: ConversionPolicy = field(default_factory=ConversionPolicy)
    recode_rules: tuple[RecodeRule, ...] = DEFAULT_RULES
    # Settings by topic.
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    fetch_max_bytes: int = 57_671_680
    # Memory for cached converted records, and for data queued for slow clients. 0: always convert
    # lazily.
    conversions_kept_bytes: int = 16 * MiB
    message_max_bytes: int = 1_048_588
    socket_request_max_bytes: int = 104_857_600
    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    fetch_session_slots: int = 1_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_000
    group_metadata_max_bytes: int = 16_777_216  # of all members of a group
    groups_memory_max_bytes: int = 256 * MiB  # of the members of all groups, and of names
    groups_max: int = 100_000
    offset_metadata_max_bytes: int = 4096
    # Partitions of `__consumer_offsets`; None: as many as the log directory has (offsets_topic.py).
    offsets_topic_num_partitions: int | None = None
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    transaction_max_timeout_ms: int = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    # Partitions of `__transaction_state`; None: as many as the log directory has.
    transaction_state_log_num_partitions: int | None = None
    transactional_id_expiration_ms: int = 604_800_000
    transactional_ids_max: int = 100_000
    # Background maintenance of logs, where the broker may write.
    cleans_up: bool = True  # False: no retention, no cleaner, no rolling by age
    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    log_cleaner_dedupe_buffer_size: int = 128 * MiB
    # Kafka's default is no limit. Here the cleaner shares the interpreter's lock with the threads
    # that serve clients.
    log_cleaner_io_max_bytes_per_second: float = 10 * MiB
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
