"""If copies differ, the one that Kafka would make leader is read, and the difference reported."""

import warnings
from pathlib import Path
from uuid import UUID

import pytest

from downconvert.spark.errors import MissingOffsetsError, MixedClustersError
from downconvert.spark.logs.replicas import Copy, best_of, id_text_of
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage import TopicPartition
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from tests.damage import damaged
from tests.downconvert.spark.reading import rows
from tests.downconvert.storage.logs import batch, indexed_segment, segment

NAME = TopicPartition("topic", 0)


def offsets(path: Path, **options: object) -> list[int]:
    return [row["offset"] for row in rows(path, **options)]


def copy(name: str, end: int, epoch: int = -1, *epochs: tuple[int, int], start: int = 0) -> Copy:
    return Copy(name, start, end, epoch, tuple(EpochEntry(*entry) for entry in epochs))


def broker(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name / "topic-0"


def test_the_copy_that_ends_further_is_read_however_its_segments_are_rolled(tmp_path: Path) -> None:
    many = [batch(offset, size=100) for offset in range(30)]
    short = broker(tmp_path, "b1")
    segment(short, 0, *many[:15])
    segment(short, 15, many[15])
    long = broker(tmp_path, "b2")
    indexed_segment(long, 0, *many)
    assert offsets(tmp_path) == list(range(30))
    segment(short, 16)  # rolled, and nothing in it yet
    assert offsets(tmp_path) == list(range(30))


def test_size_says_nothing_where_the_same_is_compressed_or_torn(tmp_path: Path) -> None:
    segment(broker(tmp_path, "b1"), 0, batch(0, 1, size=900), batch(2, size=900)[:-1])
    segment(broker(tmp_path, "b2"), 0, batch(0, 1), batch(2), batch(3))
    assert offsets(tmp_path) == [0, 1, 2, 3]


def test_a_later_leader_epoch_counts_more_than_a_higher_offset(tmp_path: Path) -> None:
    left = broker(tmp_path, "b1")  # went on writing when others had chosen another leader
    segment(left, 0, batch(0, 1, leader_epoch=0), batch(2, 3, 4, size=20, leader_epoch=0))
    leader = broker(tmp_path, "b2")
    later = [batch(offset, leader_epoch=1) for offset in (2, 3)]
    segment(leader, 0, batch(0, 1, leader_epoch=0), *later)
    with pytest.warns(RuntimeWarning, match=r"copies of topic-0 differ: .*b1/topic-0 goes up to 5"):
        assert offsets(tmp_path) == [0, 1, 2, 3]
    (leader / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 2\n")
    with pytest.warns(RuntimeWarning, match="has only what is below 2;"):
        (log,) = find_partitions([str(tmp_path)])
    assert log.directory == str(leader)


def test_a_leader_that_has_written_nothing_in_its_epoch_yet(tmp_path: Path) -> None:
    segment(broker(tmp_path, "b1"), 0, batch(0, 1, leader_epoch=0))
    leader = broker(tmp_path, "b2")
    segment(leader, 0, batch(0, leader_epoch=0))
    (leader / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 1\n")
    with pytest.warns(RuntimeWarning, match="differ"):
        assert offsets(tmp_path) == [0]


def test_followers_that_lag_are_no_news() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leader = copy("b", 10, 3, (0, 0), (3, 7))
        assert best_of(NAME, [copy("a", 7, 0, (0, 0)), leader, copy("c", 9, 3)]) is leader
        assert best_of(NAME, [copy("a", 5), copy("b", 5)]).directory == "a"
        assert best_of(NAME, [copy("a", 5, start=3), copy("b", 5)]).directory == "b"


def test_a_copy_that_goes_beyond_its_epochs_end_is_reported() -> None:
    leader = copy("b", 10, 3, (0, 0), (3, 7))
    with pytest.warns(RuntimeWarning, match="a goes up to 8 in leader epoch 0, but a later"):
        assert best_of(NAME, [copy("a", 8, 0), leader]) is leader


def test_two_topics_of_one_name_are_no_copies(tmp_path: Path) -> None:
    for name, topic_id in (("b1", "AAAAAAAAAAAAAAAAAAAAAQ"), ("b2", "AAAAAAAAAAAAAAAAAAAAAg")):
        directory = broker(tmp_path, name)
        segment(directory, 0, batch(0))
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    with pytest.raises(MixedClustersError, match="both called topic-0, and are of different"):
        find_partitions([str(tmp_path)])


def test_a_damaged_topic_id_is_warned_of_and_counts_as_missing(tmp_path: Path) -> None:
    assert id_text_of(str(tmp_path)) is None
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: nonsense")
    with pytest.warns(RuntimeWarning, match=r"partition\.metadata.* counts as missing"):
        assert id_text_of(str(tmp_path)) is None


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_copy_that_may_go_further_behind_damage_is_warned_of(is_damaged: bool) -> None:
    """If the leader's copy is damaged too, only the offsets of that damage are reported."""
    leader = Copy("b1", 0, 50, 3, is_damaged=is_damaged)
    other = Copy("b2", 0, 40, 3, is_damaged=True)
    with pytest.warns(RuntimeWarning, match="b2 is damaged after offset 40 of a-0"):
        assert best_of(TopicPartition("a", 0), [other, leader]) is leader


def test_a_copy_without_a_topic_id_may_be_of_the_topic() -> None:
    leader = Copy("b1", 0, 50, 3, topic_id=UUID(int=7))
    assert best_of(NAME, [Copy("b2", 0, 40, 3), leader]) is leader


def test_an_epoch_ends_where_the_next_later_one_begins() -> None:
    leader = copy("b", 30, 5, (0, 0), (2, 10), (5, 20))
    ends = {epoch: leader.end_of_epoch(epoch) for epoch in (-1, 0, 1, 2, 4, 5, 6)}
    assert ends == {-1: 0, 0: 10, 1: 10, 2: 20, 4: 20, 5: 30, 6: 30}


def with_checkpoint(directory: Path, *epochs: tuple[int, int]) -> None:
    lines = [f"{epoch} {start}" for epoch, start in epochs]
    text = "\n".join(["0", str(len(epochs)), *lines, ""])
    (directory / "leader-epoch-checkpoint").write_text(text)


def of_epochs(*epochs: int) -> list[bytes]:
    """Batches of two records, each with its leader epoch, which no checksum covers."""
    batches = [batch(2 * number, 2 * number + 1) for number in range(len(epochs))]
    return [
        damaged(data, field="leader_epoch", to=epoch, crc="stale")
        for data, epoch in zip(batches, epochs, strict=True)
    ]


WRONG = [1, 2, 64, 1 << 30]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("is_earlier_too", [False, True])
def test_an_epoch_of_a_last_batch_that_no_checkpoint_has_does_not_count(
    tmp_path: Path, wrong: int, is_indexed: bool, is_earlier_too: bool
) -> None:
    """A broker notes an epoch before it writes the first batch of it. Epochs never fall."""
    short, long = broker(tmp_path, "b1"), broker(tmp_path, "b2")
    write = indexed_segment if is_indexed else segment
    write(short, 0, *of_epochs(0, 0, wrong if is_earlier_too else 0, 0, wrong))
    write(long, 0, *of_epochs(*[0] * 8))
    with_checkpoint(short, (0, 0))
    with_checkpoint(long, (0, 0))
    with pytest.warns(RuntimeWarning, match=rf"b1/topic-0 has leader epoch {wrong}, which no"):
        assert offsets(tmp_path) == list(range(16))


@pytest.mark.parametrize(
    ("ends", "epochs"),
    [
        *(((0, 0, 0, 0, wrong), (0,) * 8) for wrong in WRONG),
        # The longer copy's last batch has a wrong epoch, an earlier one.
        ((2, 2, 2, 2, 2), (2, 2, 2, 2, 2, 2, 2, 0)),
        ((0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 0, -(2**31))),
    ],
)
@pytest.mark.parametrize("compacted", ["", "topic"])
@pytest.mark.filterwarnings("ignore:copies of topic-0 differ")
def test_without_checkpoints_an_epoch_of_one_batch_does_not_hide_another_copys_records(
    tmp_path: Path, ends: tuple[int, ...], epochs: tuple[int, ...], compacted: str
) -> None:
    segment(broker(tmp_path, "b1"), 0, *of_epochs(*ends))
    segment(broker(tmp_path, "b2"), 0, *of_epochs(*epochs))
    with pytest.warns(RuntimeWarning, match="copies of topic-0 differ: .* not known whether"):
        read = rows(tmp_path, mode="PERMISSIVE", compacted=compacted)
    assert [row["offset"] for row in read if row["_corrupt"] is None] == list(range(10))
    (report,) = [row["_corrupt"] for row in read if row["_corrupt"]]
    assert (report["startOffset"], report["endOffset"]) == (10, 16)
    assert "another copy, which a later leader may have truncated, at 16" in report["reason"]
    with pytest.raises(MissingOffsetsError, match="offsets 10 up to 16 are missing"):
        offsets(tmp_path, compacted=compacted)


@pytest.mark.parametrize("others", [((0, 0), (1, 8)), ()])
def test_a_leader_that_has_written_one_batch_in_its_epoch(
    tmp_path: Path, others: tuple[tuple[int, int], ...]
) -> None:
    """Its checkpoint has the epoch, or another copy's, which was copied later."""
    leader, follower = broker(tmp_path, "b1"), broker(tmp_path, "b2")
    segment(leader, 0, *of_epochs(0, 0, 0, 0, 1))
    segment(follower, 0, *of_epochs(*[0] * 8))
    with_checkpoint(leader, *(((0, 0),) if others else ((0, 0), (1, 8))))
    with_checkpoint(follower, (0, 0))
    if others:
        third = broker(tmp_path, "b3")
        segment(third, 0, *of_epochs(0, 0, 0, 0))
        with_checkpoint(third, *others)
    with pytest.warns(RuntimeWarning, match=r"copies of topic-0 differ: .*b2/topic-0 goes up to"):
        assert offsets(tmp_path) == list(range(10))


@pytest.mark.parametrize(
    ("at", "wrong", "is_noted", "rolled"),
    [
        *((at, wrong, False, 8) for at in range(7) for wrong in (*WRONG, 0, 4, -7)),
        *((7, wrong, True, 8) for wrong in (6, 64, 1 << 30)),
        *((5, wrong, is_noted, 6) for wrong in (6, 1 << 30) for is_noted in (True, False)),
    ],
)
@pytest.mark.filterwarnings("ignore:the last batch of topic-0 in .*b2/topic-0 has leader epoch")
def test_a_batch_with_a_wrong_epoch_replaces_a_damaged_one_of_the_leaders_copy(
    tmp_path: Path, at: int, wrong: int, is_noted: bool, rolled: int
) -> None:
    """The next batch of its segment, or else the latest epoch of its copy, shows that the log has
    it."""
    leader, follower = broker(tmp_path, "b1"), broker(tmp_path, "b2")
    epochs = [3, 3, 3, 3, 5, 5, 5, 5, 5, 5]
    whole = of_epochs(*epochs)
    segment(leader, 0, *whole[:at], damaged(whole[at], field="crc", to=0), *whole[at + 1 :])
    with_checkpoint(leader, (3, 0), (5, 8))
    dated = of_epochs(*epochs[:at], wrong, *epochs[at + 1 : 8])
    segment(follower, 0, *dated[:rolled])
    segment(follower, 2 * rolled, *dated[rolled:])
    if is_noted:
        with_checkpoint(follower, (3, 0), (5, 8))
    assert offsets(tmp_path) == list(range(20))
