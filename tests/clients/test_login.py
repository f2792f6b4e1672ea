"""librdkafka logs in to the gateway with a token, and logs in again before it expires (KIP-368)."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.gateway.server import Gateway
from tests.downconvert.gateway.test_oauth import with_tokens
from tests.tokens import token
from tests.waiting import wait_for

from .combinations import PYPI, Client
from .install import installed

CLIENT = Client(PYPI, "confluent-kafka", "2.16.1", "log_in_confluent.py")


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    """Is fetched before the first token is made, which would expire meanwhile."""
    installed(CLIENT)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Gateway]:
    with with_tokens(tmp_path) as running:
        yield running


def produced(running: Gateway, seconds: float, *bearers: tuple[bytes, int]) -> tuple[int, int, str]:
    """Records, tokens that were asked for, errors."""
    tokens = [f"{bearer.decode()}@{until}" for bearer, until in bearers]
    command = [*installed(CLIENT), str(running.address), str(seconds), *tokens]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    records, asked, errors = ran.stdout.split(" ", 2)
    return int(records), int(asked), errors.strip()


def test_librdkafka_logs_in_again_before_its_token_expires(served: Gateway) -> None:
    now = int(time.time())
    bearers = [(token(now, exp=now + lives, groups=["writers"]), now + lives) for lives in (6, 600)]
    records, asked, errors = produced(served, 9, *bearers)
    assert records > 10
    assert asked == 2
    assert errors == ""
    assert not served.figures().ends["session_expired"]


def test_librdkafka_reports_that_its_token_is_refused(served: Gateway) -> None:
    now = int(time.time())
    bearer = token(now, iss="https://other.test")
    records, _, errors = produced(served, 3, (bearer, now + 600))
    assert records == 0
    assert "invalid_token" in errors
    wait_for(lambda: bool(served.figures().ends["failed_login"]))
