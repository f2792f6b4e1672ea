"""Names of files and directories are Kafka's."""

import pytest

from downconvert.storage.names import (
    FileName,
    Kind,
    State,
    TopicPartition,
    file_name,
    parse_file_name,
    parse_partition,
)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("offset", [0, 42, 2**63 - 1])
def test_parsing_and_making_names_are_inverse(kind: Kind, state: State, offset: int) -> None:
    name = file_name(offset, kind, state)
    assert parse_file_name(name) == FileName(offset, kind, state)
    assert str(FileName(offset, kind, state)) == name


def test_names_have_twenty_digits() -> None:
    assert file_name(8589934592, Kind.LOG) == "00000000008589934592.log"


@pytest.mark.parametrize(
    "name",
    [
        "0000000000000000042.log",  # nineteen digits
        "99999999999999999999.log",  # no offset
        "00000000000000000042.txt",
        "00000000000000000042.log.bak",
        "00000000000000000000-0000000000.checkpoint",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "",
    ],
)
def test_other_files_belong_to_no_offset(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("topic-0", TopicPartition("topic", 0)),
        ("a-topic-with-12-in-it-3", TopicPartition("a-topic-with-12-in-it", 3)),
        ("__cluster_metadata-0", TopicPartition("__cluster_metadata", 0)),
        ("a.b_c-10", TopicPartition("a.b_c", 10)),
    ],
)
def test_the_name_of_a_partitions_directory_is_parsed(name: str, partition: TopicPartition) -> None:
    assert parse_partition(name) == partition
    assert str(partition) == name


@pytest.mark.parametrize(
    "name",
    [
        "topic",
        "topic-",
        "-0",
        "topic-x",
        "to/pic-0",
        "topic-0.0f1e2d3c4b5a69788796a5b4c3d2e1f0-delete",
        "topic-0.0f1e2d3c4b5a69788796a5b4c3d2e1f0-future",
        "topic-0.0f1e2d3c4b5a69788796a5b4c3d2e1f0-stray",
        "remote-log-index-cache",
    ],
)
def test_other_directories_are_not_partitions(name: str) -> None:
    assert parse_partition(name) is None
