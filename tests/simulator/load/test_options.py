"""Options of a simulation over TCP: parsing, and refused values."""

from dataclasses import replace

import pytest

from records.units import KiB, MiB
from simulator.load.options import (
    FETCH_VERSIONS,
    PRESETS,
    SIZES,
    Group,
    Slow,
    format_clients,
    parse_clients,
    preset,
)
from tests.simulator.loads import SMALL


def test_kinds_and_their_numbers_are_read_oldest_first() -> None:
    groups = parse_clients("3.x:50, 0.8:200,0.10:7")
    assert groups == (Group("0.8", 200), Group("0.10", 7), Group("3.x", 50))
    assert parse_clients(format_clients(groups)) == groups


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.7:1", "not KIND:COUNT"),
        ("0.8", "not KIND:COUNT"),
        ("0.8:0", "is not a number of clients"),
        ("0.8:-1", "is not a number of clients"),
        ("0.8:1,0.8:2", "given twice"),
    ],
)
def test_clients_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_clients(text)


def test_each_release_sends_its_own_version() -> None:
    assert [Group(kind, 1).version for kind in ("0.8", "0.9", "0.10", "0.11")] == [0, 1, 3, 4]
    assert [kind for kind in FETCH_VERSIONS if Group(kind, 1).is_old] == [
        "0.8",
        "0.9",
        "0.10.0",
        "0.10",
    ]


def test_without_conversion_old_clients_send_current_versions() -> None:
    assert Group("0.8", 1).version_in("zero-copy") == Group("3.x", 1).version
    assert Group("0.8", 1).version_in("eager") == 0
    assert Group("0.11", 1).version_in("zero-copy") == 4


def test_slow_ones_are_a_share_of_each_kind_or_a_number_of_all() -> None:
    groups = (Group("0.8", 15), Group("3.x", 4))
    assert Slow.parse("10%").of(groups) == [2, 1]
    assert Slow.parse("17").of(groups) == [15, 2]
    assert [str(Slow.parse(text)) for text in ("10%", "17", "0")] == ["10%", "17", "0"]


@pytest.mark.parametrize("text", ["", "x", "-1", "101%", "1.5", "%"])
def test_invalid_numbers_and_shares_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither a number of clients nor a share"):
        Slow.parse(text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clients": ()}, "no clients"),
        ({"clients": (Group("0.8", 10_001),)}, "at most 10,000"),
        ({"partitions": 0}, "partitions are 1"),
        ({"per_fetch": 7}, "6 partitions, of which a fetch cannot ask for 7"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"pause": -1.0}, "pause is at least 0"),
        ({"seconds": float("inf")}, "seconds are at least 0, and finite"),
        ({"slow": Slow(count=7)}, "more slow clients"),
        ({"slow": Slow(share=1.0)}, "have to be fast"),
        ({"modes": ()}, "no mode"),
        ({"policy": "x"}, "is not a policy"),
    ],
)
def test_options_that_make_no_sense_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_presets_are_the_experiments_of_their_names() -> None:
    kip = preset("kip-283")
    assert (kip.count, kip.partitions, kip.per_fetch, kip.max_bytes) == (1, 200, 200, MiB)
    assert kip.workload.size == 1024 * MiB
    herd = preset("herd", 8 * MiB)
    assert herd.count == 1000
    assert sum(herd.slow.of(herd.clients)) == 100
    assert herd.workload.size == 8 * MiB
    assert preset("fairness").compares_ages
    assert set(PRESETS) == set(SIZES)


def test_the_repeat_command_has_all_options() -> None:
    words = " ".join(SMALL.arguments())
    assert "--clients 0.8:2,0.10:2,3.x:2" in words
    assert f"--max-bytes {32}KiB" in words
    assert "--seconds 0.1" in words
    assert SMALL.max_bytes == 32 * KiB
