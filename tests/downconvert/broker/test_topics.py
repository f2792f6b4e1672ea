"""The topics of a directory: found, made, changed and deleted, from several threads at a time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import Log, LogDir, TopicPartition
from downconvert.storage.checkpoints.metadata import read_topic_id
from tests.downconvert.storage.logs import batch

from .asking import ask
from .writable import writable_broker


def test_a_topic_keeps_its_id_and_another_of_its_name_gets_another(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        first = broker.topics.create("t", 2, {}, 1).id
        found = {read_topic_id(tmp_path / name) for name in ("t-0", "t-1")}
        assert {one.bytes for one in found if one is not None} == {first}
    with writable_broker(tmp_path) as broker:
        assert broker.topics["t"].id == first
        assert broker.topics.by_id(first) is broker.topics["t"]
        broker.topics.delete("t")
        assert broker.topics.by_id(first) is None
        assert broker.topics.create("t", 2, {}, 2).id != first


def test_partitions_that_come_from_elsewhere_are_found(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t"):
        pass
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        first = broker.topics.partition("t", 0)
        (tmp_path / "t-1").mkdir()
        (tmp_path / "u-0").mkdir()
        broker.topics.refresh()
        assert list(broker.topics) == ["t", "u"]
        assert sorted(broker.topics["t"].partitions) == [0, 1]
        assert broker.topics.partition("t", 0) is first
        (tmp_path / "u-0").rmdir()
        broker.topics.refresh()
        assert list(broker.topics) == ["t"]


def test_a_read_only_directory_is_not_changed(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t"):
        pass
    before = sorted(tmp_path.rglob("*"))
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        with pytest.raises(ValueError, match="reading only"):
            broker.topics.add_partitions("t", range(2))
    assert sorted(tmp_path.rglob("*")) == before


def test_topics_are_listed_while_others_come_and_go(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "stays") as broker:

        def come_and_go(name: str) -> None:
            for turn in range(10):
                broker.topics.create(name, 1, {}, turn)
                broker.topics.delete(name)

        with ThreadPoolExecutor(3) as pool:
            running = [pool.submit(come_and_go, name) for name in ("a", "z")]
            while not all(one.done() for one in running):
                response = ask(broker, ApiKey.Metadata, 9, Message(topics=None))
                assert "stays" in {topic.name for topic in response.topics}
                ask(broker, ApiKey.DescribeLogDirs, 1, Message(topics=None))
            for one in running:
                one.result()
        assert list(broker.topics) == ["stays"]


def test_several_producers_append_to_one_partition_at_a_time(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:

        def produce(_: int) -> list[int]:
            offsets = []
            for _ in range(30):
                one = Message(index=0, records=batch(0, 1, 2))
                topics = [Message(name="t", partition_data=[one])]
                body = Message(acks=-1, timeout_ms=1000, topic_data=topics)
                (topic,) = ask(broker, ApiKey.Produce, 9, body).responses
                assert topic.partition_responses[0].error_code == 0
                offsets.append(topic.partition_responses[0].base_offset)
            return offsets

        with ThreadPoolExecutor(4) as pool:
            found = sorted(offset for offsets in pool.map(produce, range(4)) for offset in offsets)
        assert found == list(range(0, 360, 3))
        log = broker.topics.log_dir.logs[TopicPartition("t", 0)]
        assert [record.offset for record in log.records()] == list(range(360))


def test_partitions_that_are_there_stay_when_others_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in (0, 3):
        (tmp_path / f"t-{index}").mkdir()
    with writable_broker(tmp_path) as broker:
        logs = broker.topics.log_dir.logs
        create = logs.create

        def some(partition: TopicPartition) -> Log:
            if partition.partition > 3:
                raise OSError(28, "No space left on device")
            return create(partition)

        monkeypatch.setattr(logs, "create", some)
        with pytest.raises(OSError, match="No space left"):
            broker.topics.add_partitions("t", range(6))
        assert sorted(broker.topics["t"].partitions) == [0, 3]


def test_a_change_costs_the_same_beside_any_number_of_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is not listed again, and the result is the same as after listing it."""
    with writable_broker(tmp_path, "stays") as broker:
        topics = broker.topics
        topics.create("rewritten", 1, {"compression.type": "gzip"}, 1)
        assert topics.rewriting == {"rewritten"}
        with monkeypatch.context() as patched:
            patched.delattr(type(topics.log_dir.logs), "__iter__")
            made = topics.create("t", 2, {}, 1)
            topics.add_partitions("t", range(4))
            topics.delete("rewritten")
        assert topics.rewriting == set()
        assert list(topics) == ["stays", "t"]
        assert topics.by_id(made.id) is topics["t"]
        before = {partition.key: partition for partition in topics.partitions()}
        topics.refresh()
        assert {partition.key: partition for partition in topics.partitions()} == before
        assert sorted(topics["t"].partitions) == [0, 1, 2, 3]


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_a_topic_that_cannot_be_deleted_keeps_the_rest_of_its_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """It keeps its id and its settings, and can be deleted later."""
    with writable_broker(tmp_path) as broker:
        topics, own = broker.topics, {"retention.ms": "5"}
        first = topics.create("t", 3, own, 1).id
        before = dict(topics["t"].partitions)
        logs = topics.log_dir.logs
        delete = logs.delete

        def fail(partition: TopicPartition) -> None:
            if partition.partition == fails:
                raise OSError(5, "Input/output error")
            delete(partition)

        with monkeypatch.context() as patched:
            patched.setattr(logs, "delete", fail)
            with pytest.raises(OSError, match="Input/output"):
                topics.delete("t")
        topic = topics["t"]
        assert sorted(topic.partitions) == list(range(fails, 3))
        for index in range(fails + 1, 3):  # else a log would have two locks
            assert topic.partitions[index] is before[index]
        assert topic.partitions[fails].leader == broker.config.node_id
        assert (topic.id, topic.config, topics.configs.kept("t")) == (first, own, own)
        assert topics.by_id(first) is topic
        topics.delete("t")
        assert (list(topics), topics.configs.kept("t")) == ([], {})


@pytest.mark.parametrize("fails", [0, 2])
def test_a_topic_that_cannot_be_made_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """Its settings are forgotten, too: partitions of this name may come from elsewhere."""
    with writable_broker(tmp_path, "u") as broker:
        logs = broker.topics.log_dir.logs
        create = logs.create

        def fail(partition: TopicPartition) -> Log:
            if partition.partition == fails:
                raise OSError(28, "No space left on device")
            return create(partition)

        with monkeypatch.context() as patched:
            patched.setattr(logs, "create", fail)
            with pytest.raises(OSError, match="No space left"):
                broker.topics.create("t", 3, {"retention.ms": "5"}, 1)
        assert (list(broker.topics), broker.topics.configs.kept("t")) == (["u"], {})
        assert list(logs) == [TopicPartition("u", 0)]
        assert sorted(broker.topics.create("t", 3, {}, 1).partitions) == [0, 1, 2]
