"""What the tests of the broker share: without Java there is no broker of Kafka to compare with."""

from tests import kafka_server

COMPARES = "*_differential.py"
collect_ignore_glob = [] if kafka_server.REQUIRED or not kafka_server.missing() else [COMPARES]


def pytest_report_header() -> str:
    absent = ", ".join(kafka_server.missing())
    return f"Kafka to compare with: {f'none, for want of {absent}' if absent else 'there'}"
