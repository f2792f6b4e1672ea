"""Topics after any changes: the same as those of a model, also after a restart."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.topics import id_without_file
from downconvert.storage import LogConfig, LogDir, TopicPartition
from downconvert.storage.checkpoints.metadata import read_topic_id
from tests.downconvert.storage.logs import UNSYNCED

from .writable import writable_broker

NAMES = ["plain", "given", "other"]
OPERATORS = {"given": {"retention.ms": "7"}}  # they have precedence
OWN: list[dict[str, str]] = [
    {},
    {"segment.bytes": "1000"},
    {"retention.ms": "5", "segment.ms": "50"},
    {"compression.type": "gzip"},
    {"message.format.version": "0.10.0"},
]
DEFAULTS = LogConfig(segment_bytes=7_000_000, retention_ms=99)

CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["add", "configure", "configure", "delete"]),  # a missing one: create
            st.sampled_from(NAMES),
            st.integers(1, 3),  # partitions
            st.sampled_from(OWN),
        ),
        st.tuples(st.sampled_from(["refresh", "restart"])),
    ),
    min_size=3,
    max_size=12,
)


class Model:
    """The model: the number of partitions and the settings of each topic."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[int, dict[str, str]]] = {}
        self.ids: dict[str, bytes] = {}
        self.gone: set[bytes] = set()
        self.now = 0

    def change(self, broker: Broker, kind: str, name: str, count: int, own: dict[str, str]) -> None:
        topics = broker.topics
        if name not in self.topics:
            self.now += 1
            self.ids[name] = topics.create(name, count, own, self.now).id
            self.topics[name] = count, own
            return
        before, kept = self.topics[name]
        if kind == "add":
            topics.add_partitions(name, range(before + count))
            self.topics[name] = before + count, kept
        elif kind == "configure":
            topics.configure(name, own)
            self.topics[name] = before, own
        else:
            topics.delete(name)
            del self.topics[name]
            self.gone.add(self.ids.pop(name))

    def check(self, broker: Broker) -> None:
        topics = broker.topics
        assert list(topics) == sorted(self.topics)
        assert len(topics) == len(self.topics)
        assert [topic.name for topic in topics.values()] == sorted(self.topics)
        for name in NAMES:
            kept = self.topics[name][1] if name in self.topics else {}
            assert topics.configs.kept(name) == kept
            assert topics.configs.of(name) == kept | OPERATORS.get(name, {})
        for name, (count, own) in self.topics.items():
            topic, config = topics[name], own | OPERATORS.get(name, {})
            assert (topic.id, topic.config, topic.has_id) == (self.ids[name], config, True)
            assert topics.by_id(topic.id) is topics.find(topic.id) is topics.find(name) is topic
            assert sorted(topic.partitions) == list(range(count))
            assert topics.partition(topic.id, count) is None
            for index, partition in topic.partitions.items():
                assert topics.partition(name, index) is topics.partition(topic.id, index)
                assert partition.name == TopicPartition(name, index)
                assert partition.log.writer.config == LogConfig.of(config, DEFAULTS)
                assert read_topic_id(partition.log.path) == UUID(bytes=topic.id)
        assert [one for one in self.gone if topics.by_id(one) is not None] == []
        rewriting = {"compression.type", "message.format.version"}
        assert topics.rewriting == {
            name for name, (_, own) in self.topics.items() if rewriting & own.keys()
        }


def of(path: Path) -> Any:
    return writable_broker(path, log_config=DEFAULTS, topics=OPERATORS)


@given(changes=CHANGES)
def test_topics_are_those_of_a_model_after_any_changes(changes: list[Any]) -> None:
    model, left = Model(), list(changes)
    with TemporaryDirectory() as directory:
        is_over = False
        while not is_over:
            with of(Path(directory)) as broker:
                model.check(broker)
                is_over = True
                while left:
                    kind, *arguments = left.pop(0)
                    if kind == "restart":
                        is_over = False
                        break
                    if kind == "refresh":
                        broker.topics.refresh()
                    else:
                        model.change(broker, kind, *arguments)
                    model.check(broker)


def test_a_broker_that_only_reads_finds_the_changes_of_another_process(tmp_path: Path) -> None:
    """A topic that is deleted and created again is found by its new id only."""
    with (
        writable_broker(tmp_path, "t", "u") as writing,
        LogDir.open(tmp_path, files=UNSYNCED) as log_dir,
    ):
        reading = Broker(log_dir, BrokerConfig())
        first, other = writing.topics["t"].id, writing.topics["u"].id
        assert reading.topics.by_id(first) is reading.topics["t"]
        writing.topics.delete("t")
        writing.topics.create("t", 3, {}, 99)
        writing.topics.delete("u")
        reading.topics.refresh()
        second = writing.topics["t"].id
        assert reading.topics.by_id(second) is reading.topics["t"]
        assert sorted(reading.topics["t"].partitions) == [0, 1, 2]
        assert [reading.topics.by_id(one) for one in (first, other)] == [None, None]
        assert [reading.topics.find(one) for one in (first, other, "u")] == [None] * 3


def test_a_partition_that_another_process_has_repaired_is_read_again(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", partitions=2):
        pass
    metadata = tmp_path / "t-1" / "partition.metadata"
    good = metadata.read_bytes()
    metadata.write_bytes(b"damaged")
    with LogDir.open(tmp_path, files=UNSYNCED) as log_dir:
        topics = Broker(log_dir, BrokerConfig()).topics
        whole = topics["t"].partitions[0]
        for data, is_offline in ((b"damaged", True), (good, False), (good, False)):
            metadata.write_bytes(data)
            topics.refresh()
            assert topics["t"].partitions[0] is whole
            assert bool(topics["t"].partitions[1].log.offline_reason) is is_offline


def test_a_topic_without_an_id_has_one_of_its_name(tmp_path: Path) -> None:
    """Brokers before 2.8 wrote no ids. The id is the same after a restart."""
    (tmp_path / "old-0").mkdir()
    for _ in range(2):
        with of(tmp_path) as broker:
            topic = broker.topics["old"]
            assert (topic.id, topic.has_id) == (id_without_file("old"), False)
            assert broker.topics.by_id(topic.id) is topic
