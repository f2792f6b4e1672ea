from downconvert.broker.access.failed_logins import FORGOTTEN, LONGEST_WAIT, FailedLogins
from downconvert.broker.access.ledger import NAMES_MAX


def test_who_has_not_failed_does_not_wait() -> None:
    failed = FailedLogins()
    failed.add("10.0.0.1", 0.0)
    assert failed.wait("10.0.0.2", 0.0) == 0
    assert failed.wait("10.0.0.1", FORGOTTEN + LONGEST_WAIT) == 0


def test_guesses_become_slower_however_many_connections_make_them() -> None:
    failed = FailedLogins()
    for _ in range(20):
        failed.add("10.0.0.1", 0.0)
    waits = [failed.wait("10.0.0.1", 0.0) for _ in range(5)]  # at once
    assert waits == sorted(waits)
    assert waits[-1] - waits[0] == 4 * LONGEST_WAIT


def test_guesses_of_a_minute_are_few() -> None:
    failed = FailedLogins()
    now, guesses = 0.0, 0
    while now < 60:
        now += failed.wait("10.0.0.1", now)
        failed.add("10.0.0.1", now)
        guesses += 1
    assert guesses < 20


def test_addresses_of_any_number_take_bounded_memory() -> None:
    failed = FailedLogins()
    for number in range(NAMES_MAX + 100):
        failed.add(f"client-{number}", 0.0)
    assert failed.wait("client-0", 0.0) == 0
    assert failed.wait(f"client-{NAMES_MAX + 99}", 0.0) > 0
