"""The threads of a server share one clock, one set of limits, and one thread that keeps time."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from downconvert.broker.network.clock import Clock
from downconvert.broker.network.serving import Serving
from downconvert.protocol.schemas import ApiKey
from tests.downconvert.broker.talking import fetch
from tests.waiting import wait_for

from .one_thread import LIMITS, START, one_thread


def test_a_thread_tells_the_timekeeper_the_deadline_of_a_request_that_waits(
    tmp_path: Path,
) -> None:
    """In seconds of the server's clock."""
    with one_thread(tmp_path) as one:
        talk, connection = one.connect()
        one.answered(talk, connection)
        assert one.deadlines == []
        one.clock.now = START + 3.0
        talk.send(ApiKey.Fetch, 4, fetch(offset=30, wait=700))
        wait_for(lambda: bool(one.deadlines))
        assert one.deadlines[0] == pytest.approx(START + 3.7)
        talk.socket.close()


def test_no_thread_can_change_what_others_share(tmp_path: Path) -> None:
    with one_thread(tmp_path, starts=False) as one:
        serving = Serving(one.broker, LIMITS, one.memory, one.unread, Clock(), one.deadlines.append)
        for name in ("broker", "limits", "clock", "wake_timekeeper"):
            with pytest.raises(FrozenInstanceError):
                setattr(serving, name, None)
        one.thread.start()
