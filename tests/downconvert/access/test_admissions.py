"""The connections of one client are limited, and those of others are not."""

import pytest

from downconvert.access.admissions import LONGEST_WAIT, Admissions, OverLimitError
from downconvert.access.ledger import NAMES_MAX
from downconvert.access.rights import Access

TWO = Access(connections=2)
FOUR_A_SECOND = Access(connection_creation_rate=4.0)
NOW = 1_000.0


def test_a_client_has_as_many_connections_as_its_limit_and_others_have_theirs() -> None:
    admissions = Admissions()
    for _ in range(2):
        assert admissions.enter("ann", TWO, NOW) == 0
    with pytest.raises(OverLimitError, match="it has 2 connections already"):
        admissions.enter("ann", TWO, NOW)
    assert admissions.enter("bob", TWO, NOW) == 0
    admissions.leave("ann")
    assert admissions.enter("ann", TWO, NOW) == 0


def test_connections_from_before_a_limit_count() -> None:
    admissions = Admissions()
    for _ in range(3):
        admissions.enter("ann", Access(), NOW)
    with pytest.raises(OverLimitError):
        admissions.enter("ann", TWO, NOW)


def test_connections_that_come_too_fast_wait_and_then_are_refused() -> None:
    admissions = Admissions()
    waits = [admissions.enter("ann", FOUR_A_SECOND, NOW) for _ in range(4)]
    assert waits == [0, 0, 0, 0]
    assert admissions.enter("ann", FOUR_A_SECOND, NOW) == pytest.approx(0.25)
    assert admissions.enter("ann", FOUR_A_SECOND, NOW) == pytest.approx(0.5)
    assert admissions.enter("bob", FOUR_A_SECOND, NOW) == 0
    for _ in range(18):
        assert admissions.enter("ann", FOUR_A_SECOND, NOW) <= LONGEST_WAIT
    for _ in range(100):  # a refusal makes nobody wait longer
        with pytest.raises(OverLimitError, match="more than 4 connections a second"):
            admissions.enter("ann", FOUR_A_SECOND, NOW)
    assert admissions.enter("ann", FOUR_A_SECOND, NOW + 0.25) == pytest.approx(LONGEST_WAIT)


def test_a_connection_that_is_refused_for_its_rate_does_not_count() -> None:
    slow = Access(connection_creation_rate=0.1)
    admissions = Admissions()
    admissions.enter("ann", slow, NOW)
    with pytest.raises(OverLimitError):
        admissions.enter("ann", slow, NOW)
    assert admissions.enter("ann", TWO, NOW) == 0
    with pytest.raises(OverLimitError):
        admissions.enter("ann", TWO, NOW)
    for _ in range(2):
        admissions.leave("ann")
    assert len(admissions) == 0


def test_a_rate_below_one_a_second_admits_the_first_connection_at_once() -> None:
    rate = Access(connection_creation_rate=0.25)
    admissions = Admissions()
    assert admissions.enter("ann", rate, NOW) == 0
    assert admissions.enter("ann", rate, NOW) == pytest.approx(4)
    with pytest.raises(OverLimitError, match=r"more than 0\.25 connections a second"):
        admissions.enter("ann", rate, NOW)


def test_a_clock_that_is_set_back_refuses_no_client() -> None:
    admissions = Admissions()
    admissions.enter("ann", FOUR_A_SECOND, NOW + 3_600)
    assert admissions.enter("ann", FOUR_A_SECOND, NOW) < 1


def test_clients_that_have_left_take_no_memory() -> None:
    admissions = Admissions()
    for number in range(NAMES_MAX + 10):
        admissions.enter(f"client {number}", FOUR_A_SECOND, NOW)
        admissions.leave(f"client {number}")
    assert len(admissions) == 0
