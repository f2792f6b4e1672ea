"""Which partitions `__consumer_offsets` has, here and elsewhere."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig, ErrorCode
from downconvert.broker.groups.offsets_topic import OffsetsTopic
from downconvert.broker.internal_topic import partition_of
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.offset_logs import commit, commit_to, fetch, make_offsets, offsets_log
from tests.downconvert.broker.two_replicas import decision
from tests.downconvert.broker.writable import writable_broker

GROUPS = [f"group-{number}" for number in range(60)]
ONE_OF_THREE = range(0, 49, 3)  # the disk of one of three brokers


def here(broker: Broker) -> list[int]:
    return sorted(broker.topics[OFFSETS_TOPIC].partitions)


@pytest.mark.parametrize(
    ("found", "told", "count"),
    [
        ((0,), None, 1),
        ((0, 1, 2), None, 3),
        (range(50), None, 50),
        ((1, 2), None, 50),
        (ONE_OF_THREE, None, 50),
        ((0, 99), None, 100),
        ((0, 2), 7, 7),
        ((0, 1), 7, 7),
        ((0, 5), 3, 6),
    ],
)
def test_the_number_of_partitions_is_found_or_configured(
    tmp_path: Path, found: tuple[int, ...], told: int | None, count: int
) -> None:
    for index in found:
        (tmp_path / f"{OFFSETS_TOPIC}-{index}").mkdir()
    broker = Broker(LogDir.open(tmp_path), BrokerConfig(offsets_topic_num_partitions=told))
    topic = OffsetsTopic(broker.config, broker.topics, broker.purgatory, broker.time_of_day)
    assert topic.count == count
    assert topic.missing == [index for index in range(count) if index not in found]
    asked = Message(resources=[Message(resource_type=4, resource_name="0")])
    (found_configs,) = ask(broker, ApiKey.DescribeConfigs, 4, asked).results
    values = {one.name: one.value for one in found_configs.configs}
    assert values["offsets.topic.num.partitions"] == str(count)


@pytest.mark.parametrize("is_writable", [True, False])
def test_groups_whose_partition_is_on_another_disk_are_served(
    tmp_path: Path, is_writable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    make_offsets(tmp_path, *ONE_OF_THREE)
    kept = [group for group in GROUPS if partition_of(group, 50) in ONE_OF_THREE]
    with writable_broker(tmp_path) as broker:
        for group in kept:
            commit_to(offsets_log(broker, partition_of(group, 50)), 5, group=group)
    caplog.clear()
    log_dir = LogDir.open(tmp_path, writable=is_writable)
    with log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=is_writable))
        assert "partitions 1, 2, 4," in caplog.text
        assert "are missing (of 50)" in caplog.text
        assert {group: fetch(broker, group)[0] for group in GROUPS} == {
            group: 5 if group in kept else -1 for group in GROUPS
        }
        assert here(broker) == list(ONE_OF_THREE)
        for group in GROUPS:
            found = ask(broker, ApiKey.FindCoordinator, 2, Message(key=group))
            assert (found.error_code, found.node_id) == (0, 0)
            assert commit(broker, 7, group) == 0
            assert fetch(broker, group) == (7, 0)
        assert here(broker) == list(range(50) if is_writable else ONE_OF_THREE)
    caplog.clear()
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        assert fetch(broker, GROUPS[0])[0] == (7 if is_writable else 5)
        assert ("are missing" in caplog.text) is not is_writable


def test_a_crash_while_missing_partitions_are_created_leaves_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_offsets(tmp_path, 0, 3)
    group = next(group for group in GROUPS if partition_of(group, 50) == 1)
    with writable_broker(tmp_path) as broker:
        logs, made = broker.topics.log_dir.logs, []
        create = logs.create

        class Died(BaseException):
            """The process."""

        def create_some(partition):  # type: ignore[no-untyped-def]
            made.append(partition.partition)
            if len(made) == 20:
                raise Died
            return create(partition)

        monkeypatch.setattr(logs, "create", create_some)
        with pytest.raises(Died):
            commit(broker, 7, group)
        monkeypatch.undo()
    with writable_broker(tmp_path) as broker:
        assert len(here(broker)) == 2 + 19
        assert (
            OffsetsTopic(broker.config, broker.topics, broker.purgatory, broker.time_of_day).count
            == 50
        )
        assert commit(broker, 7, group) == 0
        assert here(broker) == list(range(50))


def test_groups_in_other_partitions_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_offsets(tmp_path, 0, 1)
    with writable_broker(tmp_path) as broker:
        for group in GROUPS:
            commit_to(offsets_log(broker, partition_of(group, 2)), 5, group=group)
    caplog.clear()
    Broker(LogDir.open(tmp_path), BrokerConfig())
    assert caplog.text == ""
    Broker(LogDir.open(tmp_path), BrokerConfig(offsets_topic_num_partitions=50))
    assert f"of {len(GROUPS)} groups belong to other partitions if there are 50" in caplog.text


@pytest.mark.parametrize("api", [ApiKey.Heartbeat, ApiKey.LeaveGroup, ApiKey.SyncGroup])
def test_groups_of_another_coordinator_are_not_served(tmp_path: Path, api: ApiKey) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        broker.topics[OFFSETS_TOPIC].partitions[0].assign(decision(1, 7), 0.0)
        found = ask(broker, ApiKey.FindCoordinator, 2, Message(key="g"))
        assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert ask(broker, api, 1, Message(group_id="g")).error_code == ErrorCode.NOT_COORDINATOR
        assert commit(broker, 7) == ErrorCode.NOT_COORDINATOR


def test_a_new_topic_has_as_many_partitions_as_the_operator_says(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", offsets_topic_num_partitions=3) as broker:
        assert commit(broker, 7) == 0
        assert here(broker) == [0, 1, 2]


def test_only_commits_in_transactions_wait_for_a_marker(tmp_path: Path) -> None:
    """A producer with an id may have written plain commits, such as a tool that copies topics."""
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        log = offsets_log(broker)
        commit_to(log, 5, group="plain", producer=7, transactional=False)
        commit_to(log, 6, group="open", producer=8)
    with writable_broker(tmp_path) as broker:
        assert fetch(broker, "plain", stable=True) == (5, 0)
        assert fetch(broker, "open") == (-1, 0)
        assert fetch(broker, "open", stable=True)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
