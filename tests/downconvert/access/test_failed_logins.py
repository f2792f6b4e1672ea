import pytest

from downconvert.access.failed_logins import (
    FIRST_WAIT,
    FORGOTTEN,
    LONGEST_WAIT,
    UNCOUNTED,
    FailedLogins,
)
from downconvert.access.ledger import NAMES_MAX, OwnLedger

HERE, ELSEWHERE = "10.0.0.1", "10.0.0.2"


def wait(failed: FailedLogins, user: str = "ann", address: str = HERE, now: float = 0.0) -> float:
    return failed.begin(user, address, now).wait


def test_a_user_without_failures_does_not_wait() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    assert wait(failed, "ann") == FIRST_WAIT
    assert wait(failed, "bob") == 0
    assert wait(failed, "ann", ELSEWHERE) == 0
    assert wait(failed, now=FORGOTTEN + LONGEST_WAIT) == 0


def test_guesses_become_slower_however_many_connections_make_them() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    waits = [wait(failed) for _ in range(10)]  # at once
    assert waits[:3] == pytest.approx([FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT])
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT


def test_no_wait_is_longer_than_the_longest_however_many_attempts_were_dropped() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    assert max(wait(failed) for _ in range(1000)) == LONGEST_WAIT
    assert wait(failed, "bob") == 0
    assert wait(failed, now=LONGEST_WAIT) == 0  # nothing was reserved for those who have gone


def test_guesses_of_a_minute_are_few() -> None:
    failed = FailedLogins()
    now, guesses = 0.0, 0
    while now < 60:
        attempt = failed.begin("ann", HERE, now)
        now += attempt.wait
        failed.fail("ann", HERE, now, attempt)
        guesses += 1
    assert guesses < 20


def test_an_attempt_counts_once() -> None:
    ledger = OwnLedger()
    failed = FailedLogins(ledger)
    attempt = UNCOUNTED
    for expected in (FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT):
        failed.fail("ann", HERE, 0.0, attempt)
        attempt = failed.begin("ann", HERE, 0.0)
        assert attempt.wait == pytest.approx(expected)


def test_a_successful_attempt_does_not_count_and_forgives_no_other() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    for _ in range(10):
        attempt = failed.begin("ann", HERE, 0.0)
        assert attempt.wait == pytest.approx(FIRST_WAIT)
        failed.succeed("ann", HERE, attempt)
    failed.succeed("ann", HERE, UNCOUNTED)
    assert wait(failed) == pytest.approx(FIRST_WAIT)


def test_users_and_addresses_of_any_number_take_bounded_memory() -> None:
    ledger = OwnLedger()
    failed = FailedLogins(ledger)
    for number in range(NAMES_MAX + 100):
        failed.fail(f"user-{number}", HERE, 0.0)
    assert len(ledger) == NAMES_MAX
    assert wait(failed, "user-0") == 0
    assert wait(failed, f"user-{NAMES_MAX + 99}") > 0


def test_an_attempt_that_fails_after_others_were_forgotten_counts_itself() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    attempt = failed.begin("ann", HERE, 0.0)
    later = FORGOTTEN + 1
    assert failed.begin("ann", HERE, later) == UNCOUNTED
    failed.fail("ann", HERE, later, attempt)
    assert wait(failed, now=later) == pytest.approx(FIRST_WAIT)


def test_a_failure_counts_until_it_is_as_old_as_that() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    assert failed.begin("ann", HERE, FORGOTTEN).is_counted
    assert not failed.begin("ann", HERE, 2 * FORGOTTEN + 0.1).is_counted


def test_a_failure_that_is_noted_late_does_not_set_the_clock_back() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 10.0)
    failed.fail("ann", HERE, 9.0)
    assert wait(failed, now=10.0) == pytest.approx(2 * FIRST_WAIT)


def test_successes_beyond_the_failures_are_no_credit() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    attempts = [failed.begin("ann", HERE, 0.0) for _ in range(2)]
    for attempt in [*attempts, attempts[0], attempts[1]]:
        failed.succeed("ann", HERE, attempt)
    failed.fail("ann", HERE, 1.0)
    assert wait(failed, now=1.0) == pytest.approx(FIRST_WAIT)
