"""Grouping the rows of a census, to find the teams with old clients."""

import math
from typing import Any

import pytest

from downconvert.cli.report_groups import grouped, in_ranges, prefix_of

NOW = 1_700_000_000.0


def row(client_id: str, principal: str = "", rule: str = "", **fields: Any) -> dict[str, Any]:
    usual = {"api": "Fetch", "version": 12, "requests": 1, "translated": 0, "address": "10.0.0.1"}
    seen = {"first_seen": NOW, "last_seen": NOW}
    return {"client_id": client_id, "principal": principal, "rule": rule, **usual, **seen, **fields}


ROWS = [
    row("billing-a", "billing", "rule 1", requests=5, first_seen=NOW - 9, last_seen=NOW + 2),
    row("billing-a", "billing", "rule 1", version=2, translated=1, last_seen=NOW + 1),
    row("billing-b", "billing", "rule 1"),
    row("logs.1", "rule 2", "rule 2", requests=100),
    row("solo", requests=3),
]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("principal", ["billing", "(none)", "rule 2"]),
        ("rule", ["rule 1", "(none)", "rule 2"]),
        ("prefix", ["billing-*", "logs.*", "solo"]),
    ],
)
def test_clients_are_grouped_by_what_they_have_in_common(by: str, names: list[str]) -> None:
    assert [group.name for group in grouped(ROWS, by)] == names


def test_a_group_has_its_first_and_last_dates() -> None:
    first, *others = grouped(ROWS, "principal")
    assert first.figures() == {
        "name": "billing",
        "clients": 2,
        "old_clients": 1,
        "requests": 7,
        "translated": 1,
        "old": ["Fetch v2"],
        "first_seen": NOW - 9,
        "last_seen": NOW + 2,
        "last_old": NOW + 1,
    }
    assert {one.last_old for one in others} == {None}
    assert all(math.isfinite(one.first_seen) for one in others)


def test_rows_without_principals_form_their_own_group() -> None:
    old = {name: value for name, value in row("a").items() if name not in ("principal", "rule")}
    assert [group.name for group in grouped([old], "rule")] == ["(none)"]


def test_a_prefix_is_the_first_part_of_a_name() -> None:
    names = ("a-b-c", "a.b", "abc", "", "-x", "@team/app")
    assert [prefix_of(name) for name in names] == ["a-*", "a.*", "abc", "", "-x", "@team/app"]


def test_versions_in_a_row_are_a_range_in_the_order_of_numbers() -> None:
    old = {"Produce v0", *(f"Fetch v{version}" for version in (10, 9, 2, 0, 1)), "JoinGroup v1"}
    assert in_ranges(old) == "Fetch v0-v2, Fetch v9-v10, JoinGroup v1, Produce v0"
    assert in_ranges([]) == ""
