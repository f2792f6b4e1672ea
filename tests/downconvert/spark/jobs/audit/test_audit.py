"""An audit on Spark adds up to what one look on one machine finds."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from downconvert.spark.jobs.audit.audit import audit, run
from downconvert.spark.jobs.audit.audit_report import Heading, write_report
from downconvert.spark.jobs.audit.audit_summary import Topic, losses, summarise
from downconvert.storage import LogDir
from downconvert.storage.inspection import Inspection, inspect_log
from records import Codec
from tests.downconvert.storage.logs import batch, segment
from tests.report_pages import check_fits_a_phone

# Each format, codec, and fate of a transaction; compacted, trimmed and rolled logs.
TOPICS: Final = (
    *("f09-none", "f09-gzip", "f010-gzip", "f010-lz4", "f010-snappy", "from09-none", "upgraded"),
    *("none-3p", "gzip-lat", "zstd-ct", "rolled", "trimmed", "compact-drop", "compact-txn"),
    *("txn-gzip", "txn-open", "idx-default"),
)


@pytest.fixture(scope="module")
def real(real: Path) -> Path:
    return real / "2.8.2" / "log"


@pytest.fixture(scope="module")
def topics(spark: SparkSession, real: Path) -> list[Topic]:
    return summarise(
        row.asDict(recursive=True) for row in run(audit(spark, [str(real)], topics=TOPICS))
    )


def test_the_audit_of_a_real_directory_is_its_inspection(real: Path, topics: list[Topic]) -> None:
    expected: dict[str, Inspection] = {}
    with LogDir.open(real) as log_dir:
        for partition, log in log_dir.logs.items():
            if partition.topic not in TOPICS:
                continue
            if partition.topic == "trimmed":  # an inspection is of files, an audit of logs
                left = log.end_offset - log.start_offset
                assert [round(topic.records) for topic in topics if topic.name == "trimmed"] == [
                    left
                ]
                continue
            found = expected.setdefault(partition.topic, Inspection())
            found.add(inspect_log(log, deep=True))
    topics = [topic for topic in topics if topic.name != "trimmed"]
    assert [topic.name for topic in topics] == sorted(expected)
    for topic in topics:
        found = expected[topic.name]
        shares = {(m, c.name.lower()): share.bytes for (m, c), share in found.shares.items()}
        assert topic.shares == shares
        assert (topic.segments, topic.log_bytes) == (found.segments, found.log_bytes)
        assert (topic.batches, round(topic.records)) == (found.batches, found.records)
        assert topic.aborted_records == found.aborted_records
        assert round(topic.with_headers) == found.records_with_headers
        assert (topic.newest, topic.damages) == (found.newest if shares else None, []) or (
            found.newest == -1 and topic.newest is None
        )


def test_obstacles_to_kafka_4_are_named(topics: list[Topic]) -> None:
    old = {topic.name for topic in topics if not topic.is_ready}
    assert {"f09-none", "f010-gzip", "upgraded"} <= old
    assert "from09-none" not in old  # old producers, but a topic of v2
    assert sum(topic.old_bytes for topic in topics if topic.name == "f09-none") > 0


def test_obstacles_for_old_clients_are_named(topics: list[Topic]) -> None:
    text = "\n".join(losses(topics))
    for words in ("Headers: about", "zstd:", "of aborted ones", "Timestamps, in v0"):
        assert words in text


def test_the_report_is_one_file_that_loads_nothing(topics: list[Topic], tmp_path: Path) -> None:
    topics = [*topics, Topic("<script>alert(1)</script>", damaged=1, damages=["a <b> & c"])]
    path = tmp_path / "audit.html"
    write_report(path, topics, Heading(["/logs"], "downconvert spark audit /logs", is_sample=True))
    page = path.read_text()
    assert "Not ready for Kafka 4: 6 of 18 topics hold" in page
    assert re.search(r"<small>v\d \w+ [\d.]+ %", page)  # beside colours, words
    for forbidden in ("<script", "http://", "https://", "<link", "a <b> &"):
        assert forbidden not in page
    assert [file.name for file in tmp_path.iterdir()] == ["audit.html"]
    check_fits_a_phone(path)


def test_a_report_may_have_no_findings(tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    write_report(path, [Topic("empty")], Heading(["/logs"], "command", is_sample=False))
    assert "Ready for Kafka 4: every batch is v2." in path.read_text()


def test_a_gap_between_segments_is_found(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "logs" / "topic-0"
    directory.parent.mkdir()
    segment(directory, 0, batch(0, 1), batch(2, magic=1, codec=Codec.GZIP))
    segment(directory, 10, batch(10))
    segment(directory, 11, batch(11)[:-1] + b"?")
    segment(directory, 12)
    rows = audit(spark, [str(directory.parent)], everything=True).collect()
    (topic,) = summarise(row.asDict(recursive=True) for row in rows)
    assert (topic.gaps, topic.missing_offsets, topic.segments) == (1, 7, 4)
    assert topic.damaged == 1
    assert "checksum does not match" in topic.damages[0]
    codecs = Counter(row.codec for row in rows)
    assert codecs == {"none": 1, "gzip": 1, "": 1}
