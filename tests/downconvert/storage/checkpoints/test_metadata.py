"""The owner of a directory, as brokers of all versions wrote it."""

from pathlib import Path
from uuid import UUID

import pytest

from downconvert.storage import CorruptFileError, LogDir
from downconvert.storage.checkpoints.metadata import (
    MetaProperties,
    read_meta_properties,
    read_topic_id,
    topic_id_text,
    write_topic_id,
)
from downconvert.storage.disk.files import DISK


def test_metadata_files_of_brokers_are_read(real: Path) -> None:
    assert LogDir.open(real / "0.8.2.2" / "log").meta is None
    old = LogDir.open(real / "0.10.2.2" / "log").meta
    assert old is not None
    assert (old.version, old.cluster_id, old.directory_id) == (0, None, None)
    zookeeper = LogDir.open(real / "2.8.2" / "log").meta
    assert zookeeper is not None
    assert zookeeper.version == 0
    assert zookeeper.cluster_id
    kraft = LogDir.open(real / "3.9.1" / "log").meta
    assert kraft is not None
    assert kraft.version == 1
    assert kraft.node_id == 1
    assert kraft.cluster_id
    assert kraft.directory_id


def test_properties_are_java_properties(tmp_path: Path) -> None:
    text = "#\n#Sat Nov 21 05:58:00 UTC 2026\n! said\nnode.id = 7\nversion:1\n\nown one\n"
    (tmp_path / "meta.properties").write_text(text)
    assert read_meta_properties(tmp_path) == MetaProperties(1, 7, others={"own": "one"})


def test_properties_are_those_of_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("version=0\nbroker.id=3\ncluster.id=a\n")
    assert read_meta_properties(tmp_path) == MetaProperties(0, 3, "a")
    path.write_text("version=1\nnode.id=3\ncluster.id=a\ndirectory.id=b\nx=y\n")
    assert read_meta_properties(tmp_path) == MetaProperties(1, 3, "a", "b", {"x": "y"})


@pytest.mark.parametrize("text", ["version=one\n", "version=0\nbroker.id=x\n", "lonely\n"])
def test_malformed_properties_are_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(CorruptFileError):
        read_meta_properties(tmp_path)


def test_a_topic_id_is_written_as_brokers_write_it(tmp_path: Path, real: Path) -> None:
    source = real / "3.9.1" / "log" / "rolled-0"
    topic_id = read_topic_id(source)
    assert topic_id is not None
    write_topic_id(DISK, tmp_path, topic_id)
    written = (tmp_path / "partition.metadata").read_bytes()
    assert written == (source / "partition.metadata").read_bytes()
    assert not written.endswith(b"\n")


def test_brokers_before_2_8_wrote_no_topic_id(real: Path) -> None:
    assert read_topic_id(real / "2.8.2" / "log" / "rolled-0") is None


def test_an_id_is_text_as_kafka_prints_it() -> None:
    assert topic_id_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version 1"),
        ("version: 0\ntopic_id: short", "is not a topic id"),
        ("version: 0", "is not partition metadata"),
        ("", "is not partition metadata"),
    ],
)
def test_malformed_metadata_is_an_error(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(CorruptFileError, match=reason):
        read_topic_id(tmp_path)
