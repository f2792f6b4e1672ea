"""Each setting for appending: the topic's setting that it comes from, and the records it refuses.

Not here: everything else about records that are appended (test_appending.py)."""

from dataclasses import fields, replace
from typing import Any, Final

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.topic_configs import append_config
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.serving.append_config import AppendConfig
from downconvert.serving.appending import prepare
from records import Codec, MemoryRecords, Record, TimestampType, build, read
from records.formats import V0, V1, V2

NOW: Final = 1_700_000_000_000
BROKER: Final = BrokerConfig(message_max_bytes=7_777, min_insync_replicas=3)
DEFAULT: Final = append_config({}, BROKER)
BEFORE, AFTER = 5_000, 300  # milliseconds
NARROW: Final = replace(DEFAULT, before_max=BEFORE, after_max=AFTER)


def changed(own: dict[str, str]) -> dict[str, Any]:
    """The fields that these settings of a topic change."""
    found = append_config(own, BROKER)
    return {
        one.name: getattr(found, one.name)
        for one in fields(AppendConfig)
        if getattr(found, one.name) != getattr(DEFAULT, one.name)
    }


@pytest.mark.parametrize(
    ("own", "field", "value"),
    [
        ({"message.format.version": "0.10.0"}, "magic", V1),
        ({"message.format.version": "0.9.0"}, "magic", V0),
        ({"compression.type": "uncompressed"}, "codec", Codec.NONE),
        ({"compression.type": "snappy"}, "codec", Codec.SNAPPY),
        ({"cleanup.policy": "compact"}, "is_compacted", True),
        ({"cleanup.policy": "delete,compact"}, "is_compacted", True),
        ({"message.timestamp.type": "LogAppendTime"}, "is_append_time", True),
        ({"max.message.bytes": "88"}, "message_size_max", 88),
        ({"message.timestamp.before.max.ms": "5"}, "before_max", 5),
        ({"message.timestamp.after.max.ms": "6"}, "after_max", 6),
        ({"min.insync.replicas": "2"}, "min_insync_replicas", 2),
    ],
)
def test_a_setting_of_a_topic_changes_its_own_field_and_no_other(
    own: dict[str, str], field: str, value: object
) -> None:
    assert changed(own) == {field: value}


def test_settings_that_a_topic_does_not_have_are_the_brokers() -> None:
    assert (DEFAULT.magic, DEFAULT.codec, DEFAULT.level) == (V2, None, "kafka")
    assert (DEFAULT.is_compacted, DEFAULT.is_append_time) == (False, False)
    assert (DEFAULT.message_size_max, DEFAULT.min_insync_replicas) == (7_777, 3)
    assert (DEFAULT.before_max, DEFAULT.after_max) == (2**63 - 1, 2**63 - 1)
    assert changed({"cleanup.policy": "delete", "compression.type": "producer"}) == {}
    assert changed({"message.timestamp.type": "CreateTime"}) == {}


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_level_is_that_of_the_topics_codec(codec: str) -> None:
    levels = {f"compression.{name}.level": "3" for name in ("gzip", "lz4", "zstd") if name != codec}
    own = levels | {"compression.type": codec}
    assert append_config(own, BROKER).level == "kafka"
    assert append_config(own | {f"compression.{codec}.level": "2"}, BROKER).level == 2


@pytest.mark.parametrize(
    ("own", "before", "after"),
    [
        ({"difference": 77}, 77, 77),
        ({"difference": 77, "before": 99}, 99, 77),
        ({"difference": 77, "after": 99}, 77, 99),
        ({"difference": 77, "before": 5, "after": 6}, 5, 6),
        ({"difference": 77, "before": 0, "after": 0}, 0, 0),
    ],
)
def test_the_older_limit_of_times_is_for_those_that_are_not_set(
    own: dict[str, int], before: int, after: int
) -> None:
    """Whichever is larger."""
    settings = {f"message.timestamp.{name}.max.ms": str(value) for name, value in own.items()}
    assert changed(settings) == {"before_max": before, "after_max": after}


# --- what they refuse


def record(offset: int, timestamp: int, key: bytes | None = b"k") -> Record:
    return Record(offset, timestamp, TimestampType.CREATE, key, b"v")


def batch(*times: int, magic: int = V2, codec: Codec = Codec.NONE, **options: Any) -> bytes:
    """Records with times relative to now."""
    records = [record(n, NOW + time, **options) for n, time in enumerate(times)]
    return build(records, magic=magic, codec=codec)


def refused(data: bytes, config: AppendConfig) -> ErrorCode:
    """The error, or NONE."""
    try:
        prepare(memoryview(data), config, NOW)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


WAYS: Final = [
    pytest.param(V2, Codec.NONE, V2, id="as it is"),
    pytest.param(V2, Codec.LZ4, V2, id="compressed, as it is"),
    pytest.param(V1, Codec.NONE, V2, id="from the older format"),
    pytest.param(V2, Codec.NONE, V1, id="to the older format"),
]


@pytest.mark.parametrize(("magic", "codec", "to_magic"), WAYS)
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize(
    ("time", "is_refused"),
    [
        (-BEFORE, False),
        (-BEFORE - 1, True),
        (AFTER, False),
        (AFTER + 1, True),
    ],
)
def test_a_time_may_be_as_old_and_as_new_as_the_limits_and_no_more(
    magic: int, codec: Codec, to_magic: int, is_last: bool, time: int, is_refused: bool
) -> None:
    times = (0, time) if is_last else (time, 0)
    config = replace(NARROW, magic=to_magic)
    code = ErrorCode.INVALID_TIMESTAMP if is_refused else ErrorCode.NONE
    assert refused(batch(*times, magic=magic, codec=codec), config) == code
    append_time = replace(config, is_append_time=True)  # the producer's time counts for nothing
    assert refused(batch(*times, magic=magic, codec=codec), append_time) == ErrorCode.NONE


@pytest.mark.parametrize(("magic", "codec", "to_magic"), WAYS)
def test_a_compacted_topic_takes_keys_only(magic: int, codec: Codec, to_magic: int) -> None:
    compacted = replace(DEFAULT, is_compacted=True, magic=to_magic)
    data = batch(0, 1, magic=magic, codec=codec, key=None)
    assert refused(data, compacted) == ErrorCode.INVALID_RECORD
    assert refused(data, replace(compacted, is_compacted=False)) == ErrorCode.NONE
    assert refused(batch(0, 1, magic=magic, codec=codec, key=b""), compacted) == ErrorCode.NONE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_may_be_as_large_as_the_limit(codec: Codec) -> None:
    data = batch(0, 1, 2, codec=codec)
    for size_max, code in ((len(data), 0), (len(data) - 1, ErrorCode.MESSAGE_TOO_LARGE)):
        assert refused(data, replace(DEFAULT, message_size_max=size_max)) == code


@pytest.mark.parametrize("target", [None, *Codec])
def test_records_have_the_topics_codec_or_else_the_producers(target: Codec | None) -> None:
    data = batch(0, 1, codec=Codec.GZIP)
    prepared = prepare(memoryview(data), replace(DEFAULT, codec=target), NOW)
    assert prepared is not None
    records = MemoryRecords(prepared.place(0, 0)[0])
    expected = Codec.GZIP if target is None else target
    assert {header.codec for header in records.batches()} == {expected}
    assert [one.timestamp for one in read(records)] == [NOW, NOW + 1]
