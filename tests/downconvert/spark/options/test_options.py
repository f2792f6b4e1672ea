"""Options as users give them, and the errors when one is wrong."""

import pytest

from downconvert.spark.options.offsets import EARLIEST, LATEST
from downconvert.spark.options.options import Mode, Options
from records.units import MiB


def parsed(**given: str) -> Options:
    return Options.parse({"path": "/logs"} | given, streaming=False)


def parsed_for_a_stream(**given: str) -> Options:
    return Options.parse({"path": "/logs"} | given, streaming=True)


def test_options_have_their_documented_defaults() -> None:
    options = parsed()
    assert options.level == "record"
    assert options.mode is Mode.FAILFAST
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert options.max_partition_bytes == 128 * MiB
    assert (options.include_headers, options.committed) == (False, False)
    assert options.verify_crc  # as Kafka's consumer does
    assert not options.stop_at_high_watermark
    assert parsed_for_a_stream().stop_at_high_watermark


def test_a_stream_begins_at_the_end_as_from_kafka() -> None:
    assert parsed_for_a_stream().starting == LATEST


def test_names_may_be_of_any_case() -> None:
    options = parsed(MAXPARTITIONBYTES="64m", IncludeHeaders="TRUE", MODE="permissive")
    assert (options.max_partition_bytes, options.include_headers) == (64 * MiB, True)
    assert options.mode is Mode.PERMISSIVE


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"path": "/a"}, ("/a",)),
        ({"path": "file:///a/b"}, ("/a/b",)),
        ({"path": '["/a", "/b"]'}, ("/a", "/b")),
        ({"paths": '["/a","file:/b"]'}, ("/a", "/b")),
    ],
)
def test_paths(given: dict[str, str], paths: tuple[str, ...]) -> None:
    assert Options.parse(given).paths == paths


@pytest.mark.parametrize("is_managed", ["false", None])
def test_a_table_with_a_location_is_read_there(is_managed: str | None) -> None:
    given = {"location": "/warehouse/t"}
    given |= {} if is_managed is None else {"is_managed_location": is_managed}
    assert Options.parse(given).paths == ("/warehouse/t",)
    assert Options.parse({"path": "/logs", **given}).paths == ("/logs",)


def test_a_location_that_spark_chose_holds_no_logs() -> None:
    given = {"location": "/warehouse/t", "is_managed_location": "true"}
    with pytest.raises(ValueError, match="no path"):
        Options.parse(given)
    assert Options.parse({"path": "/logs", **given}).paths == ("/logs",)


def test_compacted_topics_by_name_and_by_wildcard() -> None:
    options = parsed(compacted="orders, audit-*")
    declared = [options.is_compacted(name) for name in ("orders", "audit-eu", "orders2", "audit")]
    assert declared == [True, True, False, False]
    assert not parsed().is_compacted("orders")


@pytest.mark.parametrize("time", [0, 5])
def test_a_timestamp_of_all_partitions_overrides_one_by_partition(time: int) -> None:
    """0 is a timestamp, too, and not an absent one."""
    given = {
        "startingTimestamp": str(time),
        "endingTimestamp": str(time),
        "startingOffsetsByTimestamp": '{"a":{"0":3}}',
        "endingOffsetsByTimestamp": '{"a":{"0":4}}',
    }
    options = parsed(**given)
    assert (options.starting_time("a", 0), options.ending_time("a", 0)) == (time, time)
    del given["startingTimestamp"], given["endingTimestamp"]
    options = parsed(**given)
    assert (options.starting_time("a", 0), options.ending_time("a", 0)) == (3, 4)
    assert (options.starting_time("a", 1), options.ending_time("a", 1)) == (None, None)


def test_topics_by_name_by_wildcard_and_by_pattern() -> None:
    assert takes(parsed(topics="orders, audit-*"), "orders", "audit-eu") == [True, True]
    assert takes(parsed(topics="orders"), "orders2", "my.orders") == [False, False]
    assert takes(parsed(topicsPattern="or.*|x"), "orders", "x", "ax") == [True, True, False]


def test_options_of_the_kafka_source_mean_the_same_or_nothing() -> None:
    given = {
        "subscribe": "orders",
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.isolation.level": "read_committed",
        "minPartitions": "4",
    }
    options = parsed(**given)
    assert options.topics == ("orders",)
    assert options.committed


def test_an_empty_cluster_id_or_name_of_a_column_counts_as_not_given() -> None:
    options = parsed(clusterId="", columnNameOfCorruptRecord="")
    assert (options.cluster_id, options.corrupt_column) == (None, "_corrupt")


def test_partitions_as_numbers_and_ranges() -> None:
    assert parsed(partitions="0,3-5").partitions == frozenset([0, 3, 4, 5])


def test_offsets_of_partitions_that_are_not_named_are_the_default() -> None:
    starting = parsed(startingOffsets='{"t":{"0":23,"1":-2}}').starting
    assert [starting.bound("t", p, 5, 99) for p in (0, 1, 2)] == [23, 5, 5]
    ending = parsed(endingOffsets='{"t":{"0":50,"1":-1}}').ending
    assert [ending.bound("t", p, 5, 99) for p in (0, 1, 2)] == [50, 99, 99]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lvel": "batch"}, "unknown option lvel"),
        (
            {"level": "row"},
            "level must be record or batch or offset or group or transaction or count or split",
        ),
        ({"mode": "IGNORE"}, "mode must be"),
        ({"verifyCrc": "yes"}, "verifyCrc must be true or false"),
        ({"maxPartitionBytes": "0"}, "maxPartitionBytes must be a number of bytes"),
        (
            {"maxPartitionBytes": "1023k"},
            "maxPartitionBytes must be a number of bytes from 1048576",
        ),
        ({"minPartitions": "0"}, "minPartitions must be a number from 1 on"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be a number from 1 on"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger must be a number of bytes"),
        ({"isolation": "committed"}, "isolation must be read_uncommitted or read_committed"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false"),
        ({"columns": " , "}, "columns has no value"),
        ({"topics": "a", "topicsPattern": "a"}, "give one of assign, topics"),
        ({"topics": "a", "assign": '{"a":[0]}'}, "give one of assign, topics"),
        ({"assign": '{"a":[0]}', "topicsPattern": "a"}, "give one of assign, topics"),
        ({"topics": "a", "assign": "{}"}, "give one of assign, topics"),
        ({"topics": "a", "topicsPattern": ""}, "give one of assign, topics"),
        ({"maxPartitionBytes": "64mm"}, "maxPartitionBytes must be a number of bytes"),
        ({"maxRecordBytes": "2g"}, "maxRecordBytes must be a number of bytes from 1 to"),
        ({"partitions": "0-9999999"}, "are too many"),
        ({"partitions": "one"}, "numbers and ranges"),
        ({"topicsPattern": "("}, "topicsPattern is not a regular expression"),
        ({"startingOffsets": "latest"}, "cannot be 'latest'"),
        ({"endingOffsets": "earliest"}, "cannot be 'earliest'"),
        ({"startingOffsets": '{"t":{"0":5,"1":-1}}'}, "cannot be 'latest'"),
        ({"endingOffsets": '{"t":{"0":5},"u":{"1":-2}}'}, "cannot be 'earliest'"),
        (
            {"startingOffsets": '{"t":{"0":-3}}'},
            "startingOffsets must be 'earliest', 'latest' or JSON",
        ),
        ({"startingOffsets": '{"t":5}'}, "startingOffsets must be 'earliest', 'latest' or JSON"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp must be a number"),
        ({"path": "s3://key:secret@bucket/logs"}, "s3://bucket/logs: credentials do not belong"),
        ({"path": "gs:///logs"}, "names no bucket"),
        ({"encryptionKeys": "key.pem"}, "id=/path/of/private.pem"),
        ({"path": "[1]"}, "is not a JSON list of directories"),
        ({"maxOffsetsPerTrigger": "1", "maxBytesPerTrigger": "1"}, "not both"),
        ({"gapTimeoutMs": "10m"}, "gapTimeoutMs must be a number from 0 on"),
    ],
)
def test_wrong_options_are_reported(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        parsed(**given)


def test_a_path_is_needed() -> None:
    with pytest.raises(ValueError, match="no path"):
        Options.parse({})


@pytest.mark.parametrize(
    "given",
    [
        {"endingOffsets": '{"t":{"0":5}}'},
        {"endingTimestamp": "0"},
        {"endingOffsetsByTimestamp": '{"t":{"0":5}}'},
    ],
)
def test_a_stream_has_no_end(given: dict[str, str]) -> None:
    parsed(**given)
    with pytest.raises(ValueError, match="a stream has no end"):
        parsed_for_a_stream(**given)


def takes(options: Options, *topics: str) -> list[bool]:
    return [options.takes(topic, 0) for topic in topics]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"topics": ""}, "topics has no value"),
        ({"topics": " , "}, "topics has no value"),
        ({"subscribe": ""}, "topics has no value"),
        ({"partitions": ""}, "partitions has no value"),
        ({"partitions": "5-3"}, "5-3 is empty"),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, "endingTimestamp is 8, before it"),
        (
            {"startingOffsets": '{"a":{"0":1}}', "endingOffsets": '{"a":{"0":0}}'},
            "startingOffsets of a-0 is 1, and endingOffsets is 0, before it",
        ),
        (
            {"startingOffsets": '{"a":{"0":5,"1":7}}', "endingOffsets": '{"a":{"0":5,"1":6}}'},
            "startingOffsets of a-1 is 7, and endingOffsets is 6",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"a":{"0":5}}',
                "endingOffsetsByTimestamp": '{"a":{"0":4}}',
            },
            "startingOffsetsByTimestamp of a-0 is 5",
        ),
    ],
)
def test_options_that_select_nothing_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parsed(**given)


def test_a_range_of_one_offset_or_of_none_is_no_mistake() -> None:
    one = parsed(startingTimestamp="9", endingTimestamp="9", partitions="3-3")
    assert (one.starting_timestamp, one.ending_timestamp, one.partitions) == (9, 9, frozenset({3}))
    none = parsed(startingOffsets='{"a":{"0":5,"1":-2}}', endingOffsets='{"a":{"0":5,"1":-1}}')
    assert none.starting != none.ending


def test_the_largest_size_is_one() -> None:
    given = {"path": "/logs", "maxrecordbytes": "1g"}
    assert Options.parse(given, streaming=False).max_record_bytes == 2**30


def test_a_stream_may_begin_at_the_end_of_some_partitions() -> None:
    given = {"path": "/logs", "startingoffsets": '{"t":{"0":5,"1":-1}}'}
    assert Options.parse(given, streaming=True).starting.of("t", 1) == -1


@pytest.mark.parametrize("level", ["offset", "group", "transaction"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topics": "a"}, "leave assign, topics"),
        ({"topicsPattern": "a.*"}, "leave assign, topics"),
        ({"assign": '{"a":[0]}'}, "leave assign, topics"),
        ({"includeHeaders": "true"}, "leave includeHeaders and isolation out"),
        ({"isolation": "read_committed"}, "leave includeHeaders and isolation out"),
        ({"kafka.isolation.level": "read_committed"}, "leave includeHeaders and isolation out"),
    ],
    ids=str,
)
def test_each_option_that_the_state_of_a_topic_cannot_heed_is_refused(
    level: str, given: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        parsed(level=level, **given)
    options = parsed(level=level, includeHeaders="false", isolation="read_uncommitted")
    assert options.topics == (options.state_topic,)
    with pytest.raises(ValueError, match="a query reads it, not a stream"):
        parsed_for_a_stream(level=level)
