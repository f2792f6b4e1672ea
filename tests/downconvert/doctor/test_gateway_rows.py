"""A gateway's report as evidence."""

import json

import pytest

from downconvert.doctor.gateway_rows import GatewayRows
from downconvert.gateway.session.census import ClientCensus, ClientKey

from .wire import read

KEY = ClientKey("app", "librdkafka 1.4.2", "10.0.0.2", "Fetch", 2)


def test_a_gateways_counts_are_read() -> None:
    census = ClientCensus()
    census.count(KEY, 100.0, translated=True)
    census.count(KEY, 200.0, translated=True)
    [found] = read(GatewayRows(), json.dumps(census.rows()).encode(), 10)
    assert found == ("app", "librdkafka 1.4.2", "10.0.0.2", 1, 2, 2, 200.0)


@pytest.mark.parametrize(
    "row", ["1", "null", "{}", '{"api":"Fetch","version":1e999,"requests":1}', "[[[]]]"]
)
def test_invalid_rows_are_counted(row: str) -> None:
    rows = GatewayRows()
    assert not read(rows, f"[{row}]".encode())
    assert rows.problems.counts["rows that no gateway --report --json has written"] == 1


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "[1", "[" + "9" * 10_000 + "]", "\xff"])
def test_other_data_than_a_report_is_a_problem(text: str) -> None:
    rows = GatewayRows()
    assert not read(rows, text.encode("latin-1"))
    assert rows.problems.counts


@pytest.mark.parametrize(
    "last_seen", ["1e300", "-1", "NaN", "Infinity", '"now"', "true", "9" * 400]
)
def test_an_invalid_time_is_left_out(last_seen: str) -> None:
    row = f'{{"api":"Fetch","version":1,"requests":1,"last_seen":{last_seen}}}'
    [found] = read(GatewayRows(), f"[{row}]".encode())
    assert found.when is None


def test_numbers_of_any_size_can_be_shown() -> None:
    row = f'{{"api":"Fetch","version":1,"requests":{"9" * 4000}}}'
    [found] = read(GatewayRows(), f"[{row}]".encode())
    assert f"{found.requests:,}"
    assert found.requests < 1 << 63


def test_a_negative_number_of_requests_counts_as_none() -> None:
    row = {"client_id": "app", "api": "Fetch", "version": 2, "requests": -5}
    assert [one.requests for one in read(GatewayRows(), json.dumps([row]).encode())] == [0]
