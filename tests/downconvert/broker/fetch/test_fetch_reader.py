"""A fetch reads the right amount of each partition, with its error and its aborted transactions."""

from pathlib import Path

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey
from downconvert.storage import LogDir
from downconvert.storage.follower import Follower
from records import Codec, MemoryRecords
from records.formats import BATCH_HEADER_SIZE
from tests.damage import spliced
from tests.downconvert.broker.asking import ask, someone
from tests.downconvert.broker.fetching import (
    OLD_VERSIONS,
    VERSIONS,
    broker_of,
    fetch,
    only,
    records_of,
    request,
)
from tests.downconvert.storage.logs import batch


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_of_another_process_is_looked_at_once_for_a_fetch(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look is fifteen calls of the system."""
    looks = []
    refresh = Follower.refresh

    def counted(self: Follower, *, relist: bool = False) -> None:
        looks.append(self)
        refresh(self, relist=relist)

    with broker_of(tmp_path, {"events": {0: [batch(0), batch(1)]}}) as broker:
        monkeypatch.setattr(Follower, "refresh", counted)
        found = fetch(broker, version, "events", 0)
    assert (len(records_of(found)), found.high_watermark) == (2, 2)
    assert len(looks) == 1


# --- limits


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_hard_limit_is_kept_but_for_a_first_message_that_is_larger(
    version: int, tmp_path: Path
) -> None:
    small, large = batch(*range(100), size=50), batch(100, size=5_000)
    with broker_of(tmp_path, {"events": {0: [small, large]}}) as broker:
        assert len(fetch(broker, version, "events", 0, max_bytes=1_000).records) == 1_000
        alone = fetch(broker, version, "events", 100, max_bytes=1_000)
    assert [len(one.value or b"") for one in records_of(alone)] == [5_000]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_hard_limit_holds_for_what_is_joined_from_several_segments(
    version: int, tmp_path: Path
) -> None:
    """Small records take more room in old formats: what fits as it is may not as it is sent."""
    segments = {at: [batch(*range(at, at + 10), size=20)] for at in range(0, 50, 10)}
    limit = sum(len(data) for [data] in segments.values()) - 1
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = fetch(broker, version, "events", 0, max_bytes=limit)
        whole = fetch(broker, version, "events", 0, max_bytes=10 * limit)
    assert len(found.records) == limit
    assert len(whole.records) > limit
    assert bytes(whole.records).startswith(bytes(found.records))


@pytest.mark.parametrize("version", [3, 4, 17])
def test_a_first_batch_comes_whole_and_others_only_where_they_fit(
    version: int, tmp_path: Path
) -> None:
    topics = {name: {0: [batch(0, size=2_000)]} for name in ("a", "b", "c")}
    with broker_of(tmp_path, topics) as broker:
        body = request(broker, dict.fromkeys(topics, 0), max_bytes=1)
        body.max_bytes = 10
        response = ask(broker, ApiKey.Fetch, version, body)
    sizes = [len(topic.partitions[0].records) for topic in response.responses]
    assert sizes[0] > 2_000
    assert sizes[1:] == [0, 0]


def test_many_small_segments_make_one_response_for_an_old_client(tmp_path: Path) -> None:
    segments = {offset: [batch(offset)] for offset in range(20)}
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = records_of(fetch(broker, 3, "events", 0))
    assert [one.offset for one in found] == list(range(20))


def test_a_response_with_enough_is_not_joined_with_more_segments(tmp_path: Path) -> None:
    """Each costs a look, and there may be thousands."""
    segments = {offset: [batch(offset, size=40_000)] for offset in range(20)}
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = records_of(fetch(broker, 3, "events", 0))
    assert [one.offset for one in found] == [0, 1]


# --- errors


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_batches_before_damage_are_sent_and_the_damage_is_reported(
    version: int, tmp_path: Path
) -> None:
    bad = spliced(batch(2, 3, codec=Codec.GZIP), BATCH_HEADER_SIZE, b"no gzip", drop=7)
    segments = {0: [batch(0, 1), bad], 4: [batch(4)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        good, error = (fetch(broker, version, "events", offset) for offset in (0, 2))
        behind = fetch(broker, version, "events", 4)
    assert [one.offset for one in records_of(good)] == [0, 1]
    assert (error.error_code, error.records) == (ErrorCode.CORRUPT_MESSAGE, b"")
    assert [one.offset for one in records_of(behind)] == [4]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_may_forbid_conversion(version: int, tmp_path: Path) -> None:
    config = {"events": {"message.downconversion.enable": "false"}}
    topics = {"events": {0: [batch(0)]}, "others": {0: [batch(0)]}}
    with broker_of(tmp_path, topics, topics=config) as broker:
        body = request(broker, {"events": 0, "others": 0})
        responses = [
            topic.partitions[0] for topic in ask(broker, ApiKey.Fetch, version, body).responses
        ]
    refused = ErrorCode.UNSUPPORTED_VERSION if version in OLD_VERSIONS else ErrorCode.NONE
    assert [one.error_code for one in responses] == [refused, ErrorCode.NONE]
    assert len(responses[1].records)


@pytest.mark.parametrize(("epoch", "code"), [(4, 74), (5, 0), (6, 75), (-1, 0)])
def test_a_client_that_knows_another_leader_gets_an_error(
    epoch: int, code: int, tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}) as broker:
        broker.topics["events"].partitions[0].leader_epoch = 5
        response = fetch(broker, 16, "events", 0, current_leader_epoch=epoch)
    assert response.error_code == code
    assert (response.current_leader.leader_epoch == 5) == (code == 74)


def test_a_follower_with_a_diverging_log_gets_the_point_of_divergence(tmp_path: Path) -> None:
    epochs = tmp_path / "events-0" / "leader-epoch-checkpoint"
    epochs.parent.mkdir()
    epochs.write_text("0\n2\n0 0\n4 2\n")
    with broker_of(tmp_path, {"events": {0: [batch(0, 1), batch(2, 3)]}}) as broker:
        apart, same = (fetch(broker, 12, "events", 3, last_fetched_epoch=epoch) for epoch in (3, 4))
        unknown = fetch(broker, 12, "events", 3, last_fetched_epoch=9)
    assert (apart.diverging_epoch.epoch, apart.diverging_epoch.end_offset) == (0, 2)
    assert (apart.records, len(same.records)) == (b"", len(batch(2, 3)))
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("last_epoch", [-1, 3, 4])
def test_a_broker_that_does_not_lead_tells_a_follower_no_divergence(
    last_epoch: int, tmp_path: Path
) -> None:
    """It would truncate records that its leader has."""
    epochs = tmp_path / "events-0" / "leader-epoch-checkpoint"
    epochs.parent.mkdir()
    epochs.write_text("0\n2\n0 0\n4 2\n")
    with broker_of(tmp_path, {"events": {0: [batch(0, 1), batch(2, 3)]}}) as broker:
        broker.topics["events"].partitions[0].leader = 7
        body = request(broker, {"events": 3}, replica_id=5, last_fetched_epoch=last_epoch)
        client = someone(access=Access(follower_ids=frozenset({5})))
        found = only(ask(broker, ApiKey.Fetch, 12, body, client=client))
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert found.diverging_epoch.end_offset == -1


@pytest.mark.parametrize(("version", "code"), [(5, 6), (6, 56)])
def test_a_log_that_is_gone_is_an_error_of_the_storage(
    version: int, code: int, tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}) as broker:
        (tmp_path / "events-0" / f"{0:020d}.log").unlink()
        (tmp_path / "events-0").rmdir()
        assert fetch(broker, version, "events", 0).error_code == code


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_does_not_lead_serves_no_clients_that_ask_the_leader(
    version: int, tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}) as broker:
        broker.topics["events"].partitions[0].leader = 7
        code = fetch(broker, version, "events", 0).error_code
    assert code == (ErrorCode.NOT_LEADER_OR_FOLLOWER if version < 11 else ErrorCode.NONE)


# --- transactions


@pytest.mark.parametrize("version", [4, 11, 17])
def test_committed_records_come_with_what_was_aborted_among_them(version: int, real: Path) -> None:
    with LogDir.open(real / "3.9.1" / "log") as log_dir:
        broker = Broker(log_dir)
        open_ = fetch(broker, version, "txn-open", 0, isolation_level=1)
        ended = fetch(broker, version, "txn-none", 10, isolation_level=1)
        all_of_it = fetch(broker, version, "txn-none", 10)
    headers = list(MemoryRecords(bytes(open_.records)).batches())
    assert headers[-1].last_offset < open_.last_stable_offset < open_.high_watermark
    aborted = [(one.producer_id, one.first_offset) for one in ended.aborted_transactions]
    assert (0, 11) in aborted
    assert all_of_it.aborted_transactions is None
