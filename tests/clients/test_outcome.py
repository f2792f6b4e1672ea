"""An outcome compares the records that a client read with the expected ones."""

import json
from pathlib import Path

import pytest

from .combinations import all_combinations, some_combinations
from .outcome import Outcome, difference, kept, without_time
from .report import OWN, RIGHT, WRONG, document, verdict
from .topics import Line


def line(offset: int, partition: int = 0, **changed: object) -> Line:
    row = {"p": partition, "o": offset, "t": 7, "tt": "CreateTime", "k": None, "v": "61"}
    return {**row, "h": [["a", None]], **changed}


EXPECTED = [line(0), line(2), line(3), line(0, 1)]


def test_all_once_and_in_order_is_right_in_whatever_order_partitions_come() -> None:
    assert difference(EXPECTED, [line(0, 1), line(0), line(2), line(3)], 2) == ""


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (EXPECTED[:2] + EXPECTED[3:], "partition 0: ends at offset 2, 1 of 3 are missing"),
        (EXPECTED[:3], "partition 1: nothing is read, 1 of 1 are missing"),
        ([EXPECTED[0], *EXPECTED], "partition 0: offset 0 behind 0 instead of 2"),
        ([*EXPECTED, line(3)], "partition 0: offset 3 behind the last, 3"),
        ([line(0), line(3), line(2), line(0, 1)], "partition 0: offset 3 behind 0 instead of 2"),
        ([line(0, v=""), *EXPECTED[1:]], "partition 0: offset 0: v is  instead of 61"),
        ([line(0, h=[]), *EXPECTED[1:]], "partition 0: offset 0: h is [] instead of"),
        ([line(0, t=8), *EXPECTED[1:]], "partition 0: offset 0: t is 8 instead of 7"),
        ([*EXPECTED, line(0, 2)], "partition 2: offset 0 behind the last"),
    ],
)
def test_the_first_difference_is_named(found: list[Line], message: str) -> None:
    assert difference(EXPECTED, found, 2).startswith(message)


def test_a_client_is_held_to_what_its_format_has() -> None:
    v1 = [{**each, "h": []} for each in EXPECTED]
    v0 = [{**each, "t": -1, "tt": "NoTimestampType"} for each in v1]
    silent = [{name: each[name] for name in "pokv"} for each in EXPECTED]
    for magic, found in ((2, EXPECTED), (1, v1), (0, v0)):
        assert difference(EXPECTED, found, magic) == difference(EXPECTED, silent, magic) == ""
    assert difference(EXPECTED, v1, 2)
    assert difference(EXPECTED, v0, 1)


def test_a_client_that_knows_timestamps_must_have_been_given_some() -> None:
    by_name = {str(one): one for one in all_combinations()}
    silent: list[Line] = [{"p": 0, "o": 0, "k": None, "v": None}]
    assert without_time(by_name["librdkafka 1.0.0 default assign"], silent)
    assert not without_time(by_name["librdkafka 1.0.0 0.9.0.1 assign"], silent)
    assert not without_time(by_name["pykafka 2.8.0 0.10.0 simple"], silent)


def test_there_are_182_combinations_and_the_quick_look_has_each_version_of_two_registries() -> None:
    every, some = all_combinations(), some_combinations()
    assert len(every) == len({str(one) for one in every}) == 182
    assert {one.client for one in some} == {
        one.client for one in every if one.client.registry in ("pypi", "java")
    }


def test_the_table_hides_no_failure() -> None:
    by_name = {str(one): one for one in all_combinations()}
    java = by_name["kafka-clients 0.9.0.1 default assign"]
    pykafka = by_name["pykafka 2.8.0 0.9.0 simple"]
    outcomes = [
        Outcome(java, "none", ""),
        Outcome(java, "gzip", "nothing is read"),
        Outcome(pykafka, "compacted", "nothing is read"),
    ]
    assert [verdict(outcome) for outcome in outcomes] == [RIGHT, WRONG, OWN]
    text = document({"serve": outcomes, "gateway": outcomes[:1] + outcomes[2:]})
    assert "| kafka-clients 0.9.0.1 | default | assign | 1 | **1 / 2** | 1 / 1 |\n" in text
    assert "| pykafka 2.8.0 | 0.9.0 | simple | 1 | 0 / 1 | 0 / 1 |\n" in text
    assert "- serve: kafka-clients 0.9.0.1 default assign, gzip: nothing is read" in text
    assert "| pykafka 2.8.0 | compacted | 1 | 1 | It stays at a gap" in text


def test_a_row_has_all_pins_and_modes_of_a_version() -> None:
    ours = [one for one in all_combinations() if one.client.version == "2.0.2"]
    ours = [one for one in ours if one.client.name == "confluent-kafka"]
    text = document({"serve": [Outcome(one, topic, "") for one in ours for topic in ("a", "b")]})
    pins = "default, 0.8.2.2, 0.9.0.1, 0.10.0.1"
    assert f"| confluent-kafka 2.0.2 | {pins} | assign, group | 0, 1, 11 | 14 / 14 |" in text


def test_outcomes_are_read_again_as_they_were_written(tmp_path: Path) -> None:
    one, two = all_combinations()[:2]
    outcomes = [Outcome(one, "none", ""), Outcome(two, "gzip", "nothing is read", 1.5, again=True)]
    lines = [outcome.as_json() for outcome in outcomes]
    gone = {**lines[0], "version": "0.0.1"}  # a combination that there was once
    path = tmp_path / "outcomes.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (*lines, gone)))
    assert list(kept(path)) == outcomes
