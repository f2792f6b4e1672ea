"""Every option of Spark's Kafka source is honoured, refused with a reason, or without effect."""

from pathlib import Path
from typing import Final

import pytest

from downconvert.spark.options.options import Options
from tests.downconvert.spark.reading import rows
from tests.downconvert.storage.logs import batch, indexed_segment

HONOURED, REFUSED, WITHOUT_EFFECT = "honoured", "refused", "without effect"

# Spark's Kafka integration guide, 4.1: all options of its source, and what of Kafka's consumer it
# names. The value; of an honoured one the records left of a-0 and a-1 with offsets 0 to 9, and of
# b-0 with offset 0, with the timestamp ten times the offset.
BATCH: Final = {
    "assign": (HONOURED, '{"a":[1],"b":[0]}', 11),
    "subscribe": (HONOURED, "b", 1),
    "subscribePattern": (HONOURED, "[ac]", 20),
    "kafka.bootstrap.servers": (WITHOUT_EFFECT, "broker:9092", 21),
    "startingTimestamp": (HONOURED, "50", 10),
    "startingOffsetsByTimestamp": (HONOURED, '{"a":{"0":50,"1":90}}', 7),
    "startingOffsets": (HONOURED, '{"a":{"0":8}}', 13),
    "endingTimestamp": (HONOURED, "30", 7),
    "endingOffsetsByTimestamp": (HONOURED, '{"a":{"0":30,"1":30}}', 7),
    "endingOffsets": (HONOURED, '{"a":{"0":8}}', 19),
    "failOnDataLoss": (HONOURED, "false", 21),
    "kafkaConsumer.pollTimeoutMs": (WITHOUT_EFFECT, "512", 21),
    "fetchOffset.numRetries": (WITHOUT_EFFECT, "3", 21),
    "fetchOffset.retryIntervalMs": (WITHOUT_EFFECT, "10", 21),
    "minPartitions": (HONOURED, "8", 21),
    "maxRecordsPerPartition": (REFUSED, "1000", "set maxPartitionBytes"),
    "groupIdPrefix": (WITHOUT_EFFECT, "spark", 21),
    "kafka.group.id": (WITHOUT_EFFECT, "g", 21),
    "includeHeaders": (HONOURED, "true", 21),
    "startingOffsetsByTimestampStrategy": (HONOURED, "latest", 21),
    "kafka.isolation.level": (HONOURED, "read_committed", 21),
    "kafka.check.crcs": (HONOURED, "false", 21),
    "kafka.security.protocol": (WITHOUT_EFFECT, "SSL", 21),
    "kafka.auto.offset.reset": (REFUSED, "latest", "set startingOffsets"),
    "kafka.key.deserializer": (REFUSED, "x", "deserialize them in the query"),
    "kafka.value.deserializer": (REFUSED, "x", "deserialize them in the query"),
    "kafka.enable.auto.commit": (REFUSED, "true", "checkpoint of the query"),
    "kafka.interceptor.classes": (REFUSED, "x", "no consumer"),
}
STREAM: Final = {
    "maxOffsetsPerTrigger": (HONOURED, "10"),
    "minOffsetsPerTrigger": (REFUSED, "10", "interval of the trigger"),
    "maxTriggerDelay": (REFUSED, "15m", "interval of the trigger"),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs")
    for name in ("a-0", "a-1"):
        indexed_segment(path / name, 0, *(batch(n) for n in range(10)))
    indexed_segment(path / "b-0", 0, batch(0))
    return path


@pytest.mark.parametrize("name", BATCH)
def test_an_option_of_a_batch_query(name: str, logs: Path) -> None:
    kind, value, expected = BATCH[name]
    if kind == REFUSED:
        with pytest.raises(ValueError, match=f"option {name} is not supported: .*{expected}"):
            rows(logs, **{name: value})
    else:
        assert len(rows(logs, **{name: value})) == expected


@pytest.mark.parametrize("name", STREAM)
def test_an_option_of_a_stream(name: str) -> None:
    kind, value, *reason = STREAM[name]
    given = {"path": "/logs", name: value}
    if kind == REFUSED:
        with pytest.raises(ValueError, match=f"option {name} is not supported: .*{reason[0]}"):
            Options.parse(given, streaming=True)
    else:
        assert Options.parse(given, streaming=True).max_offsets_per_trigger == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "a", "topics": "b"}, "subscribe and topics mean the same"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "give one of assign, topics"),
        ({"subscribePattern": "a", "subscribe": "a"}, "give one of assign, topics"),
        ({"assign": '{"a":0}'}, "assign must be JSON such as"),
        ({"assign": "[" * 100_000}, "assign must be JSON such as"),
        ({"startingOffsetsByTimestamp": '{"a":{"0":-5}}'}, "startingOffsetsByTimestamp must be"),
        ({"assign": '{"a":[0,7]}'}, "a-7: no such topic or partition below"),
        ({"subscribe": "a,nobody"}, "nobody: no such topic .* the topics there are a, b"),
        ({"subscribePattern": "x.*"}, r"x\.\*: no such topic"),
        ({"startingOffsets": '{"a":{"0":1,"7":2}}'}, r"a-7 \(startingOffsets\): no such topic"),
        ({"endingOffsets": '{"nobody":{"0":1}}'}, r"nobody-0 \(endingOffsets\): no such topic"),
        ({"startingOffsetsByTimestamp": '{"b":{"1":1}}'}, r"b-1 \(startingOffsetsByTimestamp\)"),
        ({"endingOffsetsByTimestamp": '{"b":{"1":1}}'}, r"b-1 \(endingOffsetsByTimestamp\)"),
        (
            {"startingOffsets": '{"a":{"01":1}}'},
            "startingOffsets must be 'earliest', 'latest' or JSON",
        ),
        (
            {"startingTimestamp": 50, "startingOffsetsByTimestampStrategy": "error"},
            "b-0 has no record from timestamp 50 on",
        ),
    ],
)
def test_wrong_options_of_kafkas_source_are_errors(
    options: dict[str, object], words: str, logs: Path
) -> None:
    with pytest.raises(ValueError, match=words):
        rows(logs, **options)


def test_timestamps_go_before_offsets_and_one_for_all_before_those_by_partition() -> None:
    options = Options.parse(
        {
            "path": "/logs",
            "startingTimestamp": "5",
            "startingOffsetsByTimestamp": '{"a":{"0":7}}',
            "endingOffsetsByTimestamp": '{"a":{"0":9}}',
        }
    )
    assert options.starting_time("a", 0) == options.starting_time("b", 3) == 5
    assert (options.ending_time("a", 0), options.ending_time("a", 1)) == (9, None)


def test_properties_that_a_catalog_adds_to_a_table_are_taken() -> None:
    table = {
        "location": "file:/logs",
        "owner": "me",
        "provider": "kafka-segments",
        "option.topics": "a",
        "comment": "of a backup",
    }
    options = Options.parse(table)
    assert (options.paths, options.topics) == (("/logs",), ("a",))
    assert Options.parse(table | {"path": "/other", "topics": "a"}).paths == ("/other",)
    assert Options.parse(table | {"Topics": "of the query"}).topics == ("of the query",)
    with pytest.raises(ValueError, match="no path"):
        Options.parse(table | {"is_managed_location": "true"})
