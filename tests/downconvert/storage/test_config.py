"""Settings of a log are within Kafka's limits, and those of a topic are read as Kafka does."""

from typing import Any

import pytest

from downconvert.storage import LogConfig
from downconvert.storage.config import LONG_MAX

UNBOUNDED = ("index_interval_bytes", "max_message_bytes")


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("segment_bytes", 1, 2**31 - 1),
        ("segment_ms", 1, LONG_MAX),
        ("segment_index_bytes", 12, 2**31 - 1),
        ("index_interval_bytes", 0, 2**31 - 1),
        ("max_message_bytes", 0, 2**31 - 1),
        ("retention_ms", -1, LONG_MAX),
        ("retention_bytes", -1, LONG_MAX),
        ("delete_retention_ms", 0, LONG_MAX),
        ("min_compaction_lag_ms", 0, LONG_MAX),
        ("max_compaction_lag_ms", 1, LONG_MAX),
        ("min_cleanable_dirty_ratio", 0, 1),
    ],
)
def test_values_outside_their_limits_are_refused(name: str, least: int, most: int) -> None:
    for value in (least, most):
        given: dict[str, Any] = {name: value}
        assert getattr(LogConfig(**given), name) == value
    has_most = most != LONG_MAX and name not in UNBOUNDED
    for value in [least - 1, most + 1] if has_most else [least - 1]:
        given = {name: value}
        with pytest.raises(ValueError, match=r"must (not )?be"):
            LogConfig(**given)


def test_a_policy_is_delete_or_compact_or_both_or_neither() -> None:
    for policy in ((), ("delete",), ("compact",), ("delete", "compact")):
        config = LogConfig(cleanup_policy=frozenset(policy))
        assert (config.is_deleted, config.is_compacted) == ("delete" in policy, "compact" in policy)
    with pytest.raises(ValueError, match="may name delete and compact"):
        LogConfig(cleanup_policy=frozenset({"delete", "shred"}))


def test_segments_of_a_compacted_topic_roll_within_the_maximum_compaction_lag() -> None:
    compacted = LogConfig(
        cleanup_policy=frozenset({"compact"}), segment_ms=70, max_compaction_lag_ms=50
    )
    assert compacted.roll_ms == 50
    assert LogConfig(segment_ms=70, max_compaction_lag_ms=50).roll_ms == 70


def test_settings_of_a_topic_override_defaults_and_unknown_ones_are_ignored() -> None:
    defaults = LogConfig(retention_ms=5, segment_bytes=77)
    settings = {
        "retention.ms": "9",
        "retention.bytes": "-5",  # Kafka's no limit
        "segment.index.bytes": "4",  # which Kafka rounds up
        "cleanup.policy": " compact , delete",
        "min.cleanable.dirty.ratio": "0.25",
        "flush.ms": "1",
    }
    found = LogConfig.of(settings, defaults)
    assert (found.retention_ms, found.segment_bytes) == (9, 77)
    assert (found.retention_bytes, found.segment_index_bytes) == (-1, 12)
    assert found.cleanup_policy == {"compact", "delete"}
    assert found.min_cleanable_dirty_ratio == 0.25
    assert LogConfig.of({"cleanup.policy": ""}).cleanup_policy == frozenset()
