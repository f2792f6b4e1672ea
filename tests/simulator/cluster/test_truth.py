"""The invariants of a simulated cluster: contradictions are reported."""

import pytest

from downconvert.storage import TopicPartition
from simulator.cluster.truth import InvariantError, Truth, Written

NAME = TopicPartition("t", 0)
ONE, OTHER = Written(1, 7).value(20), Written(2, 0).value(20)


@pytest.fixture
def truth() -> Truth:
    return Truth([NAME])


def observed(
    truth: Truth, offset: int, epoch: int, who: str = "a", *, certain: bool = True
) -> None:
    truth.saw_high_watermark(NAME, offset, 0, epoch, who, certain=certain)


def test_a_record_names_its_producer() -> None:
    assert (len(ONE), Written.of(ONE)) == (20, (1, 7))


def test_an_offset_has_one_record_for_ever(truth: Truth) -> None:
    truth.seen(NAME, 3, ONE, "a")
    truth.seen(NAME, 3, ONE, "b")
    with pytest.raises(InvariantError, match=r"c gets 2 0 .* at offset 3 of t-0, where"):
        truth.acknowledged(NAME, 3, OTHER, "c")


def test_acknowledged_records_are_in_the_log_at_the_end(truth: Truth) -> None:
    truth.acknowledged(NAME, 1, ONE, "a")
    truth.check_log(NAME, [OTHER, ONE])
    with pytest.raises(InvariantError, match=r"offset 1 .* was acknowledged, is lost"):
        truth.check_log(NAME, [OTHER])
    with pytest.raises(InvariantError, match=r"offset 1 of t-0 was 1 7 .* and is 2 0"):
        truth.check_log(NAME, [OTHER, OTHER])


def test_a_leaders_high_watermark_never_decreases_for_any_client(truth: Truth) -> None:
    observed(truth, 5, epoch=1)
    observed(truth, 4, epoch=1, who="b")  # his response was longer under way
    with pytest.raises(InvariantError, match="decreases from 5 to 4"):
        observed(truth, 4, epoch=1)


def test_a_later_leader_is_not_below_an_earlier_one_when_it_is_certain(truth: Truth) -> None:
    observed(truth, 5, epoch=1)
    observed(truth, 3, epoch=2, certain=False)
    with pytest.raises(InvariantError, match="decreases from 5 to 4"):
        observed(truth, 4, epoch=2)
