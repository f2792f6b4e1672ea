"""Starting and ending points: what is one, and what it is in each partition."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from downconvert.spark.options.offsets import (
    EARLIEST,
    LATEST,
    OFFSET_MAX,
    StartingPoint,
    check_order,
    check_orders,
    parse_assigned,
    parse_timestamps,
)

PARTITION_MAX: Final = 2**31 - 1


def starting(text: str, name: str = "startingOffsets") -> StartingPoint:
    return StartingPoint.parse(text, name)


@pytest.mark.parametrize("text", ["earliest", "EARLIEST", "Earliest"])
def test_earliest_is_the_first_offset_of_each_partition(text: str) -> None:
    assert starting(text) == EARLIEST
    assert starting(text).bound("t", 3, 5, 9) == 5


@pytest.mark.parametrize("text", ["latest", "LATEST"])
def test_latest_is_the_last_offset_of_each_partition(text: str) -> None:
    assert starting(text, "endingOffsets") == LATEST
    assert starting(text).bound("t", 3, 5, 9) == 9


@pytest.mark.parametrize(("name", "default"), [("startingOffsets", 5), ("endingOffsets", 9)])
def test_offsets_are_of_a_topic_and_a_partition(name: str, default: int) -> None:
    text = json.dumps({"a": {"0": 23, "1": -2, "2": -1, "10": 0}, "b": {"0": OFFSET_MAX}})
    found = starting(text, name)
    assert [found.bound("a", n, 5, 9) for n in (0, 1, 2, 10)] == [23, 5, 9, 0]
    assert [found.of("a", n) for n in (0, 1, 2, 10)] == [23, -2, -1, 0]
    assert found.bound("b", 0, 5, 9) == OFFSET_MAX
    assert {found.bound(*of, 5, 9) for of in (("a", 3), ("b", 1), ("c", 0))} == {default}


OFFSETS: Final = ("-3", "-4", str(OFFSET_MAX + 1), "1.0", '"1"', "true", "null", "[]", "{}")
PARTITIONS: Final = ("00", "01", "-1", "", " 1", "1 ", "+1", "a", "1.0", "12345678901", "\u0661")
TEXTS: Final = ("", "x", "{", "[]", "5", "null", '"earliest"', "[" * 100_000, '{"t":5}', '{"t":[]}')


@pytest.mark.parametrize(
    "text",
    [
        *TEXTS,
        *(f'{{"t":{{"0":{offset}}}}}' for offset in OFFSETS),
        *(f'{{"t":{{"{number}":1}}}}' for number in PARTITIONS),
        '{"t":{"0":1},"u":{"0":-3}}',
        '{"t":{"0":1,"1":-3}}',
        "first",
    ],
    ids=lambda text: text[:30],
)
def test_anything_else_is_refused_by_the_options_name(text: str) -> None:
    words = "^endingOffsets must be 'earliest', 'latest' or JSON such as .*, not "
    with pytest.raises(ValueError, match=words) as caught:
        starting(text, "endingOffsets")
    assert len(str(caught.value)) < 350


@pytest.mark.parametrize("time", [0, 1, OFFSET_MAX])
def test_timestamps_are_of_a_topic_and_a_partition(time: int) -> None:
    wanted: dict[str, dict[str, int]] = {"t": {"0": time, "10": 7}, "u": {}}
    assert parse_timestamps(json.dumps(wanted), "x") == wanted


@pytest.mark.parametrize(
    "text",
    [
        *TEXTS,
        *(f'{{"t":{{"0":{time}}}}}' for time in ("-1", "-2", *OFFSETS)),
        *(f'{{"t":{{"{number}":1}}}}' for number in PARTITIONS),
    ],
    ids=lambda text: text[:30],
)
def test_a_wrong_timestamp_is_refused_by_the_options_name(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"^endingOffsetsByTimestamp must be JSON such as"
    ) as caught:
        parse_timestamps(text, "endingOffsetsByTimestamp")
    assert len(str(caught.value)) < 300


def test_assigned_partitions_are_those_of_each_topic() -> None:
    found = parse_assigned(f'{{"t":[0,7,7,{PARTITION_MAX}],"u":[1],"v":[]}}', "assign")
    assert found == {("t", 0), ("t", 7), ("t", PARTITION_MAX), ("u", 1)}


@pytest.mark.parametrize(
    "text",
    [
        *(text for text in TEXTS if text != '{"t":[]}'),
        *(f'{{"t":[0,{n}]}}' for n in ("-1", PARTITION_MAX + 1, "1.0", '"1"', "true", "null")),
        '{"t":{"0":1}}',
        '{"t":[0],"u":0}',
    ],
    ids=lambda text: text[:30],
)
def test_a_wrong_partition_is_refused_by_the_options_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"^assign must be JSON such as") as caught:
        parse_assigned(text, "assign")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("parse", [starting, parse_timestamps, parse_assigned])
def test_an_error_shows_the_beginning_of_a_long_text(parse: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="not '" + "x" * 200 + "'$"):
        parse("x" * 5000, "startingOffsets")


@pytest.mark.parametrize(
    ("start", "end", "is_wrong"),
    [(5, 4, True), (1, 0, True), (5, 5, False), (4, 5, False), (None, 4, False), (5, None, False)],
)
def test_an_end_is_not_before_its_start(start: int | None, end: int | None, is_wrong: bool) -> None:
    if is_wrong:
        words = f"^startingX here is {start}, and endingX is {end}, before it$"
        with pytest.raises(ValueError, match=words):
            check_order("X", " here", start, end)
    else:
        check_order("X", " here", start, end)


@pytest.mark.parametrize(
    ("starts", "ends", "wrong"),
    [
        ({"a": {"0": 5}}, {"a": {"0": 4}}, "a-0"),
        ({"a": {"0": 5}}, {"a": {"0": 0}}, "a-0"),
        ({"a": {"0": 5, "1": 6}, "b": {"0": 9}}, {"a": {"0": 5, "1": 6}, "b": {"0": 8}}, "b-0"),
        ({"a": {"0": 5}}, {"a": {"0": -1}}, None),
        ({"a": {"0": 5}}, {"a": {"0": -2}}, None),
        ({"a": {"0": -1}}, {"a": {"0": 0}}, None),
        ({"a": {"0": 5}}, {"a": {"1": 4}}, None),
        ({"a": {"0": 5}}, {"b": {"0": 4}}, None),
    ],
)
def test_partitions_that_both_options_name_are_compared(
    starts: dict[str, dict[str, int]], ends: dict[str, dict[str, int]], wrong: str | None
) -> None:
    if wrong is None:
        check_orders("Offsets", starts, ends)
    else:
        with pytest.raises(ValueError, match=f"^startingOffsets of {wrong} is "):
            check_orders("Offsets", starts, ends)
