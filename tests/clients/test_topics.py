"""The topics that clients read are what they claim to be."""

from pathlib import Path

from downconvert.storage import LogDir, TopicPartition
from records.formats import Codec

from . import topics


def test_written_topics_hold_the_expected_records(tmp_path: Path) -> None:
    written = topics.write(tmp_path)
    with LogDir.open(tmp_path) as log_dir:
        for topic in written:
            found = [
                topics.expected_line(number, record)
                for number in range(len(topic.partitions))
                for record in log_dir.logs[TopicPartition(topic.name, number)].records()
            ]
            assert found == topic.expected, topic.name


def test_they_hold_what_trips_old_clients(tmp_path: Path) -> None:
    by_name = {topic.name: topic for topic in topics.write(tmp_path)}
    with LogDir.open(tmp_path) as log_dir:
        headers = {
            name: [header for _, header in log_dir.logs[TopicPartition(name, 0)].batches()]
            for name in by_name
        }
    emptied = [header for header in headers["compacted"] if header.records_count == 0]
    assert len(emptied) > 5
    assert {header.codec for header in headers["mixed"]} == set(Codec)
    assert headers["transactions"][-1].is_control
    assert {line["tt"] for line in by_name["append-time"].expected} == {"LogAppendTime"}
    trimmed = by_name["trimmed"].partitions[0].start
    assert any(
        header.base_offset < trimmed <= header.last_offset and header.codec is Codec.GZIP
        for header in headers["trimmed"]
        if trimmed is not None
    )
    assert len(by_name["compacted"].partitions[0].segments) > 10
