"""Some thousands of requests that nobody should send; bench/fuzz_requests.py sends millions."""

import gc
import logging
import random
from pathlib import Path
from types import FrameType

import pytest

from downconvert.access.rights import Access
from downconvert.serving.limits import Limits
from tests.damage import mutated

from .guarding import guard_of
from .hostile import attempt, attempt_as_somebody, guarded_broker, hostile_broker, request
from .talking import Talk, serving

SEED = 5
MUTANTS = 3_000
SENT = 200


@pytest.mark.parametrize("writable", [False, True])
def test_requests_are_answered_or_end_their_connection(tmp_path: Path, writable: bool) -> None:
    with hostile_broker(tmp_path, writable=writable) as broker:
        seen = {attempt(broker, SEED, number, number / 100) for number in range(MUTANTS)}
    assert {"answered", "BadRequestError"} <= seen


@pytest.mark.parametrize(
    "access",
    [
        Access(topics=("a*", "t*"), groups=("g*",), consumer_byte_rate=1e6),
        Access(is_read_only=True),
        Access(written_topics=("a*",), transactional_ids=("x",)),
    ],
)
def test_damaged_requests_of_limited_clients_are_answered_or_end_the_connection(
    tmp_path: Path, access: Access
) -> None:
    with hostile_broker(tmp_path, writable=True) as broker:
        broker.guard = guard_of(None, access)
        seen = {attempt(broker, SEED, number, number / 100) for number in range(MUTANTS)}
    assert {"answered", "BadRequestError"} <= seen


def test_damaged_requests_of_users_show_them_nothing_of_others(tmp_path: Path) -> None:
    with guarded_broker(tmp_path) as broker:
        seen = {
            attempt_as_somebody(broker, SEED, number, number / 100) for number in range(MUTANTS)
        }
    assert {"answered", "BadRequestError", "FailedLoginError", "hangs up", "waits"} <= seen


@pytest.mark.parametrize("writable", [False, True])
def test_no_request_takes_memory_until_garbage_is_collected(tmp_path: Path, writable: bool) -> None:
    """An error that is kept by a function that it refers to also keeps the function's request."""
    gc.collect()
    gc.disable()
    try:
        with hostile_broker(tmp_path, writable=writable) as broker:
            for number in range(MUTANTS):
                attempt(broker, SEED, number, number / 100)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
        kept = [one.f_code.co_qualname for one in gc.garbage if isinstance(one, FrameType)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not kept


def test_a_server_continues_to_serve_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = random.Random(SEED)
    with serving(tmp_path, limits=Limits(request=0.5)) as server, Talk(server.address) as other:
        for _ in range(SENT):
            with Talk(server.address) as talk:
                talk.send_frame(mutated(request(source), source))
        assert other.is_served()
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []
