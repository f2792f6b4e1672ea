"""Signals of a server's command are noted, and handled one after the other."""

import os
import signal

import pytest

from downconvert.cli.signals import AGAIN, SIGNALS, Signals


def send(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_returned_once(number: int) -> None:
    with Signals() as signals:
        assert signals.wait(0.0) == set()
        send(number)
        assert signals.wait() == {number}
        assert signals.wait(0.0) == set()


def test_signals_before_a_wait_are_returned_together() -> None:
    with Signals() as signals:
        send(AGAIN, AGAIN, signal.SIGTERM)
        assert signals.wait() == {AGAIN, signal.SIGTERM}
        assert signals.wait(0.0) == set()


def test_a_signal_ends_the_wait_for_it() -> None:
    def late(*_: object) -> None:
        send(AGAIN)

    former = signal.signal(signal.SIGALRM, late)
    try:
        with Signals() as signals:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            assert signals.wait() == {AGAIN}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, former)


def test_the_former_handlers_are_back_afterwards() -> None:
    former = [signal.getsignal(number) for number in SIGNALS]
    with Signals():
        assert not set(former) & {signal.getsignal(number) for number in SIGNALS}
    assert [signal.getsignal(number) for number in SIGNALS] == former
