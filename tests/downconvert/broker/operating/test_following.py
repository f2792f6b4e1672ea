"""A directory that somebody else writes to, written here by a broker of our own."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from downconvert.broker import Broker
from downconvert.broker.operating.following import Following
from downconvert.broker.partition_state import LOOK_AGE_MAX
from downconvert.protocol.schemas import ApiKey
from downconvert.storage import LogDir, TopicPartition
from downconvert.storage.checkpoints.checkpoint import write_offsets
from downconvert.storage.checkpoints.metadata import write_topic_id
from downconvert.storage.disk.files import DISK
from downconvert.storage.names import HIGH_WATERMARKS
from tests.downconvert.broker.asking import begin, response_of
from tests.downconvert.broker.offset_logs import commit
from tests.downconvert.broker.offset_logs import fetch as fetch_offset
from tests.downconvert.broker.talking import TOPIC, fetch
from tests.downconvert.storage import logs


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    write(tmp_path, 0)
    with LogDir.open(tmp_path) as log_dir:
        yield Broker(log_dir)


def write(path: Path, first: int, topic: str = TOPIC) -> None:
    """Ten records more."""
    directory = path / f"{topic}-0"
    directory.mkdir(exist_ok=True)
    with (directory / "00000000000000000000.log").open("ab") as log:
        log.write(logs.batch(*range(first, first + 10)))


def note(path: Path, **offsets: int) -> None:
    """The high watermarks, as a broker notes them."""
    noted = {TopicPartition(topic, 0): offset for topic, offset in offsets.items()}
    write_offsets(DISK, path / HIGH_WATERMARKS, noted)


def end(broker: Broker, topic: str = TOPIC) -> int:
    return broker.topics[topic].partitions[0].high_watermark


def test_without_a_checkpoint_all_that_is_there_is_shown(broker: Broker, tmp_path: Path) -> None:
    following = Following(broker)
    following.refresh(0.0)
    assert end(broker) == 10
    write(tmp_path, 10)
    assert end(broker) == 20


def test_uncommitted_records_are_not_shown(broker: Broker, tmp_path: Path) -> None:
    following = Following(broker)
    note(tmp_path, events=5)
    following.refresh(0.0)
    assert end(broker) == 5
    note(tmp_path, events=9)
    following.refresh(1.0)
    assert end(broker) == 9


def test_a_noted_high_watermark_does_not_go_back_or_beyond_the_end(
    broker: Broker, tmp_path: Path
) -> None:
    following = Following(broker)
    for noted, shown in ((8, 8), (3, 8), (100, 10)):
        note(tmp_path, events=noted)
        following.refresh(0.0)
        assert end(broker) == shown


def test_uncommitted_records_are_shown_if_that_is_configured(
    broker: Broker, tmp_path: Path
) -> None:
    note(tmp_path, events=5)
    Following(broker, beyond_high_watermark=True).refresh(0.0)
    assert end(broker) == 10


def test_topics_come_and_go(broker: Broker, tmp_path: Path) -> None:
    following = Following(broker)
    write(tmp_path, 0, topic="other")
    following.refresh(0.0)
    assert list(broker.topics) == [TOPIC, "other"]
    (tmp_path / "other-0").rename(tmp_path / "other-0.0123456789abcdef0123456789abcdef-delete")
    following.refresh(1.0)
    assert list(broker.topics) == [TOPIC]


def test_a_topic_that_is_not_noted_yet_shows_nothing(broker: Broker, tmp_path: Path) -> None:
    following = Following(broker)
    note(tmp_path, events=10)
    write(tmp_path, 0, topic="other")
    following.refresh(0.0)
    assert end(broker, "other") == 0


@pytest.mark.parametrize("version", [2, 4])
def test_a_fetch_that_waits_gets_what_comes(broker: Broker, tmp_path: Path, version: int) -> None:
    following = Following(broker)
    following.refresh(0.0)
    waiting = begin(broker, ApiKey.Fetch, version, fetch(offset=10, wait=60_000))
    broker.tick(1.0)
    following.refresh(1.0)
    assert not waiting.is_done
    write(tmp_path, 10)
    following.refresh(2.0)
    while not waiting.is_done:
        assert broker.tick(2.1) is not None
    (partition,) = response_of(waiting).responses[0].partitions
    assert partition.records


def test_a_damaged_checkpoint_changes_no_high_watermark(broker: Broker, tmp_path: Path) -> None:
    following = Following(broker)
    note(tmp_path, events=5)
    following.refresh(0.0)
    (tmp_path / HIGH_WATERMARKS).write_text("garbage")
    following.refresh(1.0)
    assert end(broker) == 5


def test_groups_forget_where_they_were_in_a_topic_that_is_deleted(
    broker: Broker, tmp_path: Path
) -> None:
    following = Following(broker)
    write(tmp_path, 0, "other")
    following.refresh(0.0)
    for topic in (TOPIC, "other"):
        assert commit(broker, 5, at=(topic, 0)) == 0
    shutil.rmtree(tmp_path / f"{TOPIC}-0")
    following.refresh(1.0)
    write(tmp_path, 0)
    following.refresh(2.0)
    assert fetch_offset(broker, at=(TOPIC, 0)) == (-1, 0)
    assert fetch_offset(broker, at=("other", 0)) == (5, 0)


def test_a_topic_that_was_made_again_meanwhile_is_another(broker: Broker, tmp_path: Path) -> None:
    following = Following(broker)
    directory = tmp_path / f"{TOPIC}-0"
    assert commit(broker, 5, at=(TOPIC, 0)) == 0
    write_topic_id(DISK, directory, UUID(int=1))  # a moment after the directory, as in Kafka
    following.refresh(1.0)
    assert fetch_offset(broker, at=(TOPIC, 0)) == (5, 0)
    shutil.rmtree(directory)
    write(tmp_path, 0)
    write_topic_id(DISK, directory, UUID(int=2))
    following.refresh(2.0)
    assert broker.topics[TOPIC].id == UUID(int=2).bytes
    assert fetch_offset(broker, at=(TOPIC, 0)) == (-1, 0)


@pytest.mark.parametrize(("beyond", "shown"), [(False, (0, 0, 4)), (True, (10, 10, 10))])
def test_a_topic_that_was_made_again_has_a_high_watermark_of_its_own(
    broker: Broker, tmp_path: Path, beyond: bool, shown: tuple[int, ...]
) -> None:
    """The same holds if the file has the former topic's high watermark for a moment."""
    following = Following(broker, beyond_high_watermark=beyond)
    directory = tmp_path / f"{TOPIC}-0"
    write_topic_id(DISK, directory, UUID(int=1))
    note(tmp_path, events=10)
    following.refresh(1.0)
    shutil.rmtree(directory)
    write(tmp_path, 0)
    write_topic_id(DISK, directory, UUID(int=2))
    found = []
    for noted in (None, None, 4):
        if noted is not None:
            note(tmp_path, events=noted)
        following.refresh(2.0)
        found.append(end(broker))
    assert tuple(found) == shown


def test_fetches_of_older_records_do_not_look_at_the_files(broker: Broker, tmp_path: Path) -> None:
    partition = broker.topics[TOPIC].partitions[0]
    assert partition.offsets(0, 1.0, stable=False) == (0, 10, 10)
    write(tmp_path, 10)
    assert partition.offsets(9, 1.0 + LOOK_AGE_MAX / 2, stable=False) == (0, 10, 10)
    assert partition.offsets(9, 1.0 + 2 * LOOK_AGE_MAX, stable=False) == (0, 20, 20)
    write(tmp_path, 20)
    at_end = partition.offsets(20, 1.0 + 2 * LOOK_AGE_MAX, stable=False)
    assert at_end == (0, 30, 30)
    write(tmp_path, 30)
    assert partition.offsets(9, 0.5, stable=False) == (0, 40, 40)  # another clock
