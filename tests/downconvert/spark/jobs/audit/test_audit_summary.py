"""An audit summarizes a topic, without Spark."""

from typing import Any

import pytest

from downconvert.spark.jobs.audit.audit_summary import SUMS, Cost, Topic, losses, summarise

SHARES = {(2, "zstd"): 5, (1, "gzip"): 20, (2, "none"): 70, (0, "none"): 3, (1, "zstd"): 2}


def test_shares_come_in_the_order_of_their_formats_and_codecs() -> None:
    found = Topic("t", shares=SHARES).to_json()
    assert [(one["magic"], one["codec"], one["bytes"]) for one in found["shares"]] == [
        (0, "none", 3),
        (1, "gzip", 20),
        (1, "zstd", 2),
        (2, "none", 70),
        (2, "zstd", 5),
    ]
    assert (found["old_bytes"], found["zstd_bytes"]) == (25, 7)
    assert found["ready_for_kafka_4"] is False


@pytest.mark.parametrize(("compressed", "ratio"), [(0, None), (200, 2.5)])
def test_a_ratio_needs_bytes(compressed: int, ratio: float | None) -> None:
    topic = Topic("t", compressed_bytes=compressed, compressed_payload=500.0)
    assert topic.ratio == ratio


def row(
    topic: str, partition: int, magic: int | None = 2, codec: str = "none", **given: Any
) -> dict[str, Any]:
    """A row of an audit, with zero where nothing is given."""
    sampled = ("bytes", "records", "payload", "with_headers")
    zeros = (*SUMS, "bytes", "records", "uncounted_bytes", "control_bytes")
    found: dict[str, Any] = dict.fromkeys([*zeros, *(f"sampled_{name}" for name in sampled)], 0)
    cost = {"cpu_seconds": 0.0, "bytes_out": 0, "buffers": 0, "temporary": 0}
    place = {"topic": topic, "partition": partition, "magic": magic, "codec": codec}
    found |= place | {"damages": [], "oldest": None, "newest": None, "v1": cost, "v0": cost}
    assert given.keys() <= found.keys()
    return found | given


def test_rows_of_a_topic_add_up() -> None:
    sums: dict[str, Any] = dict(zip(SUMS, range(100, 200), strict=False))
    found = summarise(
        [
            row("b", 0, bytes=10, records=1, oldest=70, newest=80, **sums),
            row("b", 1, bytes=20, records=2, oldest=50, newest=60, **sums),
            row("b", 1, 1, bytes=40, records=4, **sums),
            row("b", 4, None, "", bytes=7, records=7, oldest=10, newest=90, **sums),
            row("a", 0, bytes=80, records=8),
        ],
        {"b": 5},
    )
    assert [topic.name for topic in found] == ["a", "b"]
    assert (found[0].partitions, found[0].absent_offsets) == (1, 0)
    topic = found[1]
    assert (topic.partitions, topic.absent_offsets) == (3, 5)
    assert {name: getattr(topic, name) for name in SUMS} == {n: 4 * s for n, s in sums.items()}
    assert (topic.oldest, topic.newest) == (10, 90)
    assert topic.shares == {(2, "none"): 30, (1, "none"): 40}
    assert (topic.records, topic.is_estimate) == (7, False)


@pytest.mark.parametrize("counts", [(2, 2, 4), (5, 1), (0, 9), (3, 5)])
def test_a_topic_names_its_first_damages(counts: tuple[int, ...]) -> None:
    """However many partitions have them. The number of all is in `damaged`."""
    damages = [[f"{at}-{number}" for number in range(count)] for at, count in enumerate(counts)]
    rows = [row("t", at, damages=own, damaged=len(own)) for at, own in enumerate(damages)]
    (topic,) = summarise(rows)
    assert topic.damages == [one for own in damages for one in own][:5]
    assert topic.damaged == sum(counts)


def test_a_sample_represents_all_bytes_of_its_format_and_codec() -> None:
    """Control batches are not in a sample. Old compressed messages do not say how many they hold:
    `uncounted_bytes` are of those."""
    sample: dict[str, Any] = {"sampled_bytes": 50, "sampled_records": 4, "sampled_payload": 30}
    sample["sampled_with_headers"] = 3
    v1 = {"cpu_seconds": 0.5, "bytes_out": 60, "buffers": 7, "temporary": 8}
    v0 = {"cpu_seconds": 0.25, "bytes_out": 40, "buffers": 5, "temporary": 9}
    counted = row("t", 0, bytes=210, control_bytes=10, records=16, **sample, v1=v1, v0=v0)
    (topic,) = summarise([counted])
    assert (topic.payload, topic.with_headers, topic.records) == (120, 12, 16)
    assert (topic.compressed_bytes, topic.compressed_payload, topic.is_estimate) == (0, 0, False)
    assert topic.v1 == Cost(cpu_seconds=2, bytes_out=240, buffers=7, temporary=8)
    assert topic.v0 == Cost(cpu_seconds=1, bytes_out=160, buffers=5, temporary=9)
    (topic,) = summarise(
        [counted, row("t", 0, 1, "gzip", bytes=100, uncounted_bytes=100, **sample, v1=v0, v0=v1)]
    )
    assert (topic.payload, topic.with_headers, topic.records) == (180, 18, 24)
    assert (topic.compressed_bytes, topic.compressed_payload, topic.is_estimate) == (100, 60, True)
    assert topic.v1 == Cost(cpu_seconds=2.5, bytes_out=320, buffers=7, temporary=9)
    (topic,) = summarise([row("t", 0, 1, "gzip", bytes=50, uncounted_bytes=50, **sample)])
    assert (topic.records, topic.is_estimate) == (4, False)  # all of it is in the sample
    (topic,) = summarise([row("t", 0, 1, "gzip", bytes=50, uncounted_bytes=50)])
    assert (topic.records, topic.is_estimate) == (0, True)
    (topic,) = summarise([row("t", 0, 1, bytes=50, records=5)])
    assert (topic.records, topic.is_estimate) == (5, False)
    (topic,) = summarise([row("t", 0, 1, "gzip", bytes=100, uncounted_bytes=75, **sample)])
    assert (topic.records, topic.is_estimate) == (4 * 75 / 50, True)  # some say their count


def test_losses_name_the_topics_that_have_them() -> None:
    topics = [Topic(name, aborted_records=10, newest=1, records=5) for name in "abcde"]
    topics += [Topic("f", with_headers=2.0), Topic("g", shares={(2, "zstd"): 2048})]
    topics += [Topic("h", records=1000)]  # without timestamps
    found = list(losses(topics))
    assert [line.partition(":")[0] for line in found[:4]] == [
        "Headers",
        "zstd",
        "Transactions",
        "Timestamps, in v0",
    ]
    assert found[0].endswith("(f).")
    assert "2 KiB" in found[1]
    assert found[1].endswith("(g).")
    assert "50 records" in found[2]
    assert found[2].endswith("(a, b, c and 2 more).")
    assert "v0: 25 records" in found[3]
    assert next(losses(topics[:3])).endswith("(a, b, c).")
    assert list(losses([Topic("h")])) == [found[-1]]
