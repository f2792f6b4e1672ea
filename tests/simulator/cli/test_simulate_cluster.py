"""`downconvert simulate-cluster`: all options first, and on failure the command that repeats it."""

import json
import shlex
from pathlib import Path

import pytest

from downconvert.broker.handlers import produce
from simulator.cluster.cluster import Outcome
from tests.downconvert.cli.running import Command, start, without_notice
from tests.report_pages import check_fits_a_phone


def test_options_are_printed_before_the_results(command: Command) -> None:
    ran = command("simulate-cluster", "--seed", "3", "--seconds", "1", "--faults", "none")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("seed 3, 3 brokers, ")
    assert lines[1].startswith("1 s with faults every ")
    assert lines[1].endswith(": none")
    assert lines[-2].startswith("held: all ")
    assert lines[-1].startswith("1 seed: every invariant held; all ")


def test_a_failure_ends_with_the_command_that_repeats_it(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce.Written, "is_replicated", lambda _self: True)
    first = command("simulate-cluster", "--seed", "1", "--seeds", "2")
    assert first.code == 1
    printed, reproduce = first.err.strip().rsplit("\n", 1)
    assert "2 brokers hold" in printed
    assert reproduce == "reproduce: downconvert simulate-cluster --brokers 3 --faults all --seed 1"
    again = command(*shlex.split(reproduce)[2:])
    assert again.err == first.err


def test_unknown_faults_are_named(command: Command) -> None:
    ran = command("simulate-cluster", "--faults", "gremlins")
    assert ran.code == 2
    assert "'gremlins' is not one of delays, drops, " in ran.err


def test_simulate_with_brokers_is_the_same_command(command: Command) -> None:
    options = ("--seed", "3", "--seconds", "1", "--faults", "kills,elections", "--brokers", "3")
    ran = command("simulate", *options)
    assert ran.code == 0
    assert ran.out == command("simulate-cluster", *options).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--brokers", "3", "--to-magic", "0"), "--brokers is for brokers in simulated time"),
        (("--seed", "0", "--preset", "herd"), "which have no --preset"),
        (("--faults", "kills", "IN.log"), "which have no PATHS"),
        (("--seeds", "1", "--seconds", "nan"), "--seconds is at least 0.5"),
        (("--seeds", "1", "--seconds", "inf"), "--seconds is at least 0.5"),
        (("--seconds", "3"), "--seconds needs --clients or --preset"),
    ],
)
def test_senseless_options_with_brokers_are_refused_in_a_line(
    command: Command, arguments: tuple[str, ...], message: str
) -> None:
    ran = command("simulate", *arguments)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert message in ran.err


def test_several_seeds_end_with_a_verdict_on_all(command: Command) -> None:
    ran = command("simulate", "--brokers", "3", "--seeds", "3", "--seconds", "1")
    assert ran.code == 0
    assert ran.out.count("\nheld: ") == 3
    assert " that faults may lose or repeat (" in ran.out
    last = ran.out.splitlines()[-1]
    assert last.startswith("3 seeds: every invariant held; all ")
    assert "acknowledged with acks=all are on every replica; " in last


@pytest.mark.parametrize(
    ("promised", "words"),
    [
        (0, "no record was acknowledged with acks=all"),
        (1, "the one record acknowledged with acks=all is on every replica"),
        (2000, "all 2,000 records acknowledged with acks=all are on every replica"),
    ],
)
def test_an_outcome_is_described_in_whole_sentences(promised: int, words: str) -> None:
    outcome = Outcome(12.0, promised + 7, promised, promised + 1, {"kills": 2}, 1)
    assert outcome.describe() == (
        f"held: {words}; the logs also hold 1 record that faults may lose or repeat (7 were "
        "written without that promise); 1 leader epoch, 12.0 s: kills 2"
    )


def test_warnings_of_brokers_about_faults_are_not_printed() -> None:
    process = start("simulate-cluster", "--faults", "full-disks,torn-disks", "--seed", "1")
    _, err = process.communicate(timeout=120)
    assert (process.returncode, without_notice(err)) == (0, "")


def test_json_and_a_report_say_the_same_verdict(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    words = ("--brokers", "3", "--seed", "3", "--seconds", "1", "--json", "--report", page)
    ran = command("simulate", *words)
    document = json.loads(ran.out)
    (run,) = document["runs"]
    outcome = run["outcome"]
    assert run["options"]["seed"] == 3
    assert outcome["written"] >= outcome["promised"] > 0
    assert outcome["committed"] >= outcome["promised"]
    assert document["verdict"].startswith(
        f"1 seed: every invariant held; all {outcome['promised']} "
    )
    text = page.read_text()
    assert document["verdict"][1:] in text
    assert f"downconvert simulate --brokers 3 --seed 3 --seconds 1 --json --report {page}" in text
    check_fits_a_phone(page)


def test_a_broken_invariant_is_in_json_and_in_the_report(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(produce.Written, "is_replicated", lambda _self: True)
    page = tmp_path / "report.html"
    ran = command("simulate-cluster", "--seed", "1", "--json", "--report", page)
    assert ran.code == 1
    document = json.loads(ran.out)
    assert "2 brokers hold" in document["runs"][-1]["failure"]
    assert "broke an invariant" in document["verdict"]
    assert "2 brokers hold" in page.read_text()
