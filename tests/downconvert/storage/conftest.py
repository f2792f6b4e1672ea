"""A common fixture for tests of the log on disk: directories that real brokers wrote."""

from pathlib import Path

import pytest

from . import brokers, kafka_broker


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked directories of `brokers.py`. Not to be written to: copy what is to change."""
    path = tmp_path_factory.mktemp("real")
    brokers.unpack(path)
    return path


# Without Java there is no Kafka to ask. The head of a run states this, and it is an error in CI.
ASKS_KAFKA = "test_kafka_accepts.py"
collect_ignore = [] if kafka_broker.REQUIRED or not kafka_broker.missing() else [ASKS_KAFKA]


def pytest_report_header() -> str:
    absent = ", ".join(kafka_broker.missing())
    return f"Kafka as judge: {f'not asked, for want of {absent}' if absent else 'asked'}"
