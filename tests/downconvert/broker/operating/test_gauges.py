"""A scrape reads these parts of a broker's state, and leaves out others."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from downconvert.broker import Broker, Client
from downconvert.broker.operating import gauges
from downconvert.broker.operating.gauges import StateCollector
from downconvert.broker.partition import Partition
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.storage import CorruptFileError, LogDir
from records import Codec
from tests.downconvert.broker.fetching import fetching
from tests.downconvert.broker.offset_logs import commit
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch


class Disk(NamedTuple):
    total: int = 9000
    used: int = 2000
    free: int = 7000


def scraped(broker: Broker) -> dict[str, float]:
    """By name, and the values of its labels."""
    return {
        ":".join([one.name.removeprefix("downconvert_broker_"), *one.labels.values()]): one.value
        for family in StateCollector(broker).collect()
        for one in family.samples
    }


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Two topics of two partitions each: 5 and 2 records, and none and 1."""
    with writable_broker(tmp_path, "a", "b", partitions=2) as made:
        for topic, index, count in (("a", 0, 5), ("a", 1, 2), ("b", 1, 1)):
            append(made, topic, index, count)
        yield made


def append(broker: Broker, topic: str, index: int, count: int) -> None:
    of(broker, topic, index).log.writer.append(batch(*range(count)))


def of(broker: Broker, topic: str, index: int) -> Partition:
    found = broker.topics.partition(topic, index)
    assert found is not None
    return found


def test_bytes_and_partitions_are_added_up_by_topic(broker: Broker) -> None:
    found = scraped(broker)
    assert found["log_bytes:a"] == len(batch(*range(5))) + len(batch(0, 1))
    assert found["log_bytes:b"] == len(batch(0))
    assert (found["partitions:a"], found["partitions:b"]) == (2, 2)
    assert found["offline_partitions"] == 0  # though one of them is empty


def test_a_partition_that_cannot_be_read_is_offline(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline = of(broker, "a", 1).log
    why = property(lambda log: "a broken disk" if log is offline else None)
    monkeypatch.setattr(type(offline), "offline_reason", why)
    found = scraped(broker)
    assert (found["offline_partitions"], found["partitions:a"]) == (1, 2)
    assert found["log_bytes:a"] == len(batch(*range(5)))


@pytest.mark.parametrize("error", [OSError("gone"), CorruptFileError("damaged", Path("index"))])
def test_logs_that_go_while_they_are_looked_at_end_no_scrape(
    error: Exception, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit(broker, 1, at=("a", 0)) == 0

    def fails(*_: object) -> int:
        raise error

    monkeypatch.setattr(type(of(broker, "a", 0).log), "end_of", fails)
    monkeypatch.setattr(Partition, "high_watermark", property(fails))
    found = scraped(broker)
    assert found["offline_partitions"] == found["partitions:a"] + found["partitions:b"] + 1
    assert found[f"partitions:{OFFSETS_TOPIC}"] == 1
    assert found["group_lag_records:g:a"] == 0


def test_lag_is_added_up_by_group_and_topic(broker: Broker) -> None:
    for group, at, offset in (
        ("g", ("a", 0), 1),  # 4 behind
        ("g", ("a", 1), 1),  # 1
        ("g", ("b", 1), 1),
        ("h", ("a", 0), 3),  # 2
        ("h", ("a", 1), 7),  # beyond the end, as after a loss
    ):
        assert commit(broker, offset, group, at) == 0
    found = scraped(broker)
    assert found["group_lag_records:g:a"] == 5
    assert found["group_lag_records:g:b"] == 0
    assert found["group_lag_records:h:a"] == 2


def test_records_after_the_high_watermark_are_no_lag(broker: Broker) -> None:
    assert commit(broker, 1, at=("a", 0)) == 0
    of(broker, "a", 0).committed_end = 3
    assert scraped(broker)["group_lag_records:g:a"] == 2


def test_offsets_in_a_topic_that_is_gone_are_no_lag(broker: Broker) -> None:
    assert commit(broker, 1, at=("b", 1)) == 0
    broker.topics.delete("b")
    assert scraped(broker)["group_lag_records:g:b"] == 0


def test_the_disk_is_looked_at(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "disk_usage", lambda _: Disk())
    found = scraped(broker)
    assert (found["disk_free_bytes"], found["disk_size_bytes"]) == (7000, 9000)
    assert (found["directory_offline"], found["disk_full_total"]) == (0, 0)


def test_a_disk_that_does_not_answer_has_no_sizes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> Disk:
        raise OSError("no such directory")

    monkeypatch.setattr(gauges, "disk_usage", fails)
    monkeypatch.setattr(LogDir, "full_count", property(lambda _: 3))
    monkeypatch.setattr(LogDir, "offline_reason", property(lambda _: "a broken disk"))
    found = scraped(broker)
    assert "disk_free_bytes" not in found
    assert "disk_size_bytes" not in found
    assert (found["directory_offline"], found["disk_full_total"]) == (1, 3)
    assert "conversions_under_way" in found  # what follows is there nevertheless


def test_the_cache_of_conversions_is_looked_at(tmp_path: Path) -> None:
    kept = {"conversions_kept_bytes": 1 << 20}
    with writable_broker(tmp_path, "a", **kept) as broker:
        of(broker, "a", 0).log.writer.append(batch(*range(50), codec=Codec.GZIP))
        for number in range(5):
            client = Client(number, "127.0.0.1")
            assert fetching(broker, 2, "a", 0, now=0.0, client=client).is_done
        found = scraped(broker)
    assert (found["conversion_cache_hits_total"], found["conversion_cache_misses_total"]) == (3, 2)
    assert found["conversion_cache_evictions_total"] == 0
    assert 0 < found["conversion_cache_bytes"] < 10_000
    assert found["conversion_cache_max_bytes"] == 1 << 20
    assert found["conversions_under_way"] == 0
