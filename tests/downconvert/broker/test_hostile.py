"""Some thousands of requests that nobody should send; bench/fuzz_requests.py sends millions."""

import logging
import random
from pathlib import Path

import pytest

from downconvert.broker.limits import Limits
from tests.damage import mutated

from .hostile import attempt, hostile_broker, request
from .talking import Talk, serving

SEED = 5
MUTANTS = 3_000
SENT = 200


@pytest.mark.parametrize("writable", [False, True])
def test_requests_are_answered_or_end_their_connection(tmp_path: Path, writable: bool) -> None:
    with hostile_broker(tmp_path, writable=writable) as broker:
        seen = {attempt(broker, SEED, number, number / 100) for number in range(MUTANTS)}
    assert {"answered", "BadRequestError"} <= seen


def test_a_server_goes_on_serving_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = random.Random(SEED)
    with serving(tmp_path, limits=Limits(request=0.5)) as server, Talk(server.address) as other:
        for _ in range(SENT):
            with Talk(server.address) as talk:
                talk.send_frame(mutated(request(source), source))
        assert other.is_served()
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []
