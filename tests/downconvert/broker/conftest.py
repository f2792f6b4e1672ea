"""Fixtures for the tests of the broker. Without Java there is no Kafka broker to compare with."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker.server import Server
from tests import kafka_server
from tests.certificates import self_signed

from .talking import serving

COMPARES = "*_differential.py"
collect_ignore_glob = [] if kafka_server.REQUIRED or not kafka_server.missing() else [COMPARES]


def pytest_report_header() -> str:
    absent = ", ".join(kafka_server.missing())
    return f"Kafka to compare with: {f'none, for want of {absent}' if absent else 'there'}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def without_defects(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing goes wrong in the server itself."""
    yield
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A server's, for localhost, and its key."""
    certificate, key = self_signed(tmp_path_factory.mktemp("tls"))
    return Path(certificate), Path(key)
