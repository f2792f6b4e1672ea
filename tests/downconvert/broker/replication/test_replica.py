"""A leader's view of its followers: the high watermark, and who is in sync."""

from dataclasses import replace
from typing import Any

import pytest

from downconvert.broker.replication.replica import IsrChange, Leadership, Replicas

LAG_MAX = 30.0  # seconds
NEW = Leadership(
    leader=0,
    leader_epoch=5,
    replicas=(0, 1, 2),
    isr=frozenset({0, 1, 2}),
    alive=frozenset({0, 1, 2}),
    version=1,
)


def led(epoch_start: int = 0, **changes: Any) -> Replicas:
    return Replicas(0, replace(NEW, **changes), epoch_start, 0.0, LAG_MAX)


def isr(*ids: int) -> frozenset[int]:
    return frozenset(ids)


def asked(view: Replicas, end: int, now: float, high_watermark: int = 0) -> frozenset[int] | None:
    change = view.change(end, high_watermark, now)
    return None if change is None else change.isr


def test_the_high_watermark_is_the_least_that_replicas_in_sync_have() -> None:
    view = led()
    assert view.high_watermark(0, 10, 0.0, 1) == 0  # of whom nothing was heard
    view.fetches(1, 8, 10, 1.0, -1)
    assert view.high_watermark(0, 10, 1.0, 1) == 0
    view.fetches(2, 5, 10, 1.0, -1)
    assert view.high_watermark(0, 10, 1.0, 1) == 5
    view.fetches(2, 10, 10, 2.0, -1)
    assert view.high_watermark(5, 10, 2.0, 1) == 8


def test_the_high_watermark_never_goes_back_when_a_follower_does() -> None:
    view = led(replicas=(0, 1), isr=isr(0, 1))
    view.fetches(1, 10, 10, 1.0, -1)
    view.fetches(1, 4, 10, 2.0, -1)
    assert view.high_watermark(10, 10, 2.0, 1) == 10


def test_the_high_watermark_stays_while_fewer_than_the_minimum_are_in_sync() -> None:
    view = led(isr=isr(0))
    assert view.high_watermark(3, 10, 100.0, 2) == 3
    assert view.high_watermark(3, 10, 100.0, 1) == 10


def test_a_replica_about_to_join_the_isr_holds_the_high_watermark_back() -> None:
    view = led(isr=isr(0, 2), replicas=(0, 1, 2))
    view.fetches(2, 12, 12, 1.0, -1)
    view.fetches(1, 10, 10, 1.0, -1)
    assert view.high_watermark(3, 12, 2.0, 1) == 10
    assert view.high_watermark(3, 12, 32.0, 1) == 12  # it was given up


def test_a_dead_replica_that_had_caught_up_does_not_hold_the_high_watermark_back() -> None:
    view = led()
    view.fetches(1, 10, 10, 1.0, -1)
    view.fetches(2, 12, 12, 1.0, -1)
    assert view.high_watermark(0, 12, 2.0, 1) == 10
    view.settle(replace(NEW, isr=isr(0, 2), alive=isr(0, 2), version=2))
    assert view.high_watermark(10, 12, 2.0, 1) == 12


@pytest.mark.parametrize(
    ("offsets", "now", "stays"),
    [
        ((10,), 31.0, True),  # has everything: whenever that was
        ((9,), 29.9, True),
        ((9,), 30.1, False),  # never caught up since the epoch began
    ],
)
def test_a_follower_is_put_out_that_has_not_caught_up_for_too_long(
    offsets: tuple[int, ...], now: float, stays: bool
) -> None:
    view = led(replicas=(0, 1), isr=isr(0, 1))
    for offset in offsets:
        view.fetches(1, offset, 10, 0.0, -1)
    assert asked(view, 10, now) == (None if stays else isr(0))


def test_a_follower_that_is_always_one_fetch_behind_a_growing_log_stays_in_sync() -> None:
    view = led(replicas=(0, 1), isr=isr(0, 1))
    for second in range(0, 100, 10):
        view.fetches(1, second, second + 10, float(second), -1)
        assert asked(view, second + 10, float(second)) is None


def test_a_follower_joins_the_isr_with_all_committed_records_and_the_epochs_beginning() -> None:
    view = led(epoch_start=7, isr=isr(0, 2))
    view.fetches(2, 12, 12, 1.0, -1)
    view.fetches(1, 6, 12, 1.0, 44)
    assert asked(view, 12, 1.0, high_watermark=5) is None
    view.fetches(1, 8, 12, 1.0, 44)
    assert asked(view, 12, 1.0, high_watermark=9) is None
    view.fetches(1, 9, 12, 1.0, 44)
    change = view.change(12, 9, 1.0)
    assert change == IsrChange(5, 1, isr(0, 1, 2), ((1, 44), (2, -1)))


def test_a_dead_follower_is_not_taken_in() -> None:
    view = led(isr=isr(0, 2), alive=isr(0, 2))
    view.fetches(2, 12, 12, 1.0, -1)
    view.fetches(1, 12, 12, 1.0, -1)
    assert asked(view, 12, 1.0, high_watermark=9) is None


def test_a_proposed_isr_counts_until_the_controller_has_decided() -> None:
    view = led(isr=isr(0))
    view.fetches(1, 10, 10, 1.0, -1)
    change = view.change(10, 0, 1.0)
    assert change is not None
    assert change.isr == isr(0, 1)
    assert view.maximal_isr == isr(0, 1)
    assert view.change(10, 0, 90.0) is None  # one at a time
    assert view.high_watermark(0, 12, 90.0, 1) == 10  # though it lags by now
    view.settle(replace(NEW, isr=isr(0, 1), version=2))
    assert (view.isr, view.maximal_isr) == (isr(0, 1), isr(0, 1))


def test_a_replica_about_to_leave_the_isr_counts_until_the_controller_has_agreed() -> None:
    view = led(replicas=(0, 1), isr=isr(0, 1))
    assert asked(view, 10, 31.0) == isr(0)
    assert view.high_watermark(0, 10, 31.0, 1) == 0
    view.settle(replace(NEW, isr=isr(0), version=2))
    assert view.high_watermark(0, 10, 31.0, 1) == 10


def test_a_controller_that_does_not_agree_may_be_asked_again() -> None:
    view = led(isr=isr(0))
    view.fetches(1, 10, 10, 1.0, -1)
    change = view.change(10, 0, 1.0)
    assert change is not None
    view.refuse(change)
    assert view.maximal_isr == isr(0)
    assert asked(view, 10, 1.0) == isr(0, 1)


def test_old_news_of_the_controller_changes_nothing() -> None:
    view = led(version=3)
    view.settle(replace(NEW, isr=isr(0), version=2))
    assert view.isr == isr(0, 1, 2)


def test_a_decision_of_the_known_version_changes_nothing() -> None:
    """The controller has not decided about the proposal yet."""
    view = led(isr=isr(0))
    view.fetches(1, 10, 10, 1.0, -1)
    assert asked(view, 10, 1.0) == isr(0, 1)
    view.settle(replace(NEW, isr=isr(0), version=1))
    assert view.maximal_isr == isr(0, 1)


def test_after_a_decision_there_may_be_another_proposal() -> None:
    view = led(isr=isr(0))
    view.fetches(1, 10, 10, 1.0, -1)
    first = view.change(10, 0, 1.0)
    assert first is not None
    view.settle(replace(NEW, isr=isr(0, 1), version=2))
    view.fetches(2, 10, 10, 2.0, -1)
    second = view.change(10, 0, 2.0)
    assert second is not None
    assert (second.isr, second.version) == (isr(0, 1, 2), 2)
    view.refuse(first)  # a refusal that comes late
    assert view.maximal_isr == isr(0, 1, 2)


@pytest.mark.parametrize(
    ("fetches", "end", "until"),
    [
        ([(0, 10, 5.0), (10, 20, 30.0)], 20, 35.0),  # the first fetch reached the end of then
        ([(4, 10, 20.0), (9, 10, 25.0)], 10, 30.0),  # none did: since the epoch began
    ],
)
def test_a_follower_had_caught_up_when_it_fetched_what_it_reaches_now(
    fetches: list[tuple[int, int, float]], end: int, until: float
) -> None:
    view = led(replicas=(0, 1), isr=isr(0, 1))
    for offset, leaders_end, now in fetches:
        view.fetches(1, offset, leaders_end, now, -1)
    assert asked(view, end, until) is None
    assert asked(view, end, until + 0.1) == isr(0)


def test_a_follower_outside_of_the_isr_has_not_caught_up_before_it_fetches() -> None:
    view = led(isr=isr(0))
    assert view.high_watermark(0, 10, 1.0, 1) == 10


def test_a_replica_about_to_join_is_not_in_sync_yet() -> None:
    view = led(isr=isr(0))
    view.fetches(1, 10, 10, 1.0, -1)
    assert asked(view, 10, 1.0) == isr(0, 1)
    assert view.high_watermark(3, 10, 1.0, 2) == 3


def test_a_proposal_has_the_broker_epochs_of_those_followers_alone_that_are_in_it() -> None:
    """The controller would refuse it because of a replica that has restarted and is not in it."""
    view = led(replicas=(0, 1, 2, 3), isr=isr(0, 1, 2), alive=isr(0, 1, 2, 3))
    for id_, offset in ((1, 10), (2, 4), (3, 0)):
        view.fetches(id_, offset, 10, 1.0, 40 + id_)
    change = view.change(10, 5, 31.0)
    assert change == IsrChange(5, 1, isr(0, 1), ((1, 41),))


def test_the_last_broker_epoch_of_a_follower_is_proposed() -> None:
    view = led(isr=isr(0))
    view.fetches(1, 10, 10, 1.0, 41)
    view.fetches(1, 10, 10, 2.0, 44)
    change = view.change(10, 0, 2.0)
    assert change == IsrChange(5, 1, isr(0, 1), ((1, 44),))
