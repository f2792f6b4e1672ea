"""Whether Kafka is there to judge what we write, and the directory of a partition."""

from pathlib import Path

import pytest

from . import kafka_broker

# Without Java there is no Kafka to ask. The head of a run states this, and it is an error in CI.
ASKS_KAFKA = "test_kafka_accepts.py"
collect_ignore = [] if kafka_broker.REQUIRED or not kafka_broker.missing() else [ASKS_KAFKA]


def pytest_report_header() -> str:
    absent = ", ".join(kafka_broker.missing())
    return f"Kafka as judge: {f'not asked, for want of {absent}' if absent else 'asked'}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The empty directory of a partition."""
    path = tmp_path / "topic-0"
    path.mkdir()
    return path
