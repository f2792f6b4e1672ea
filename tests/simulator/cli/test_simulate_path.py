"""`downconvert simulate` over TCP."""

import json
from pathlib import Path

import pytest

from tests.downconvert.cli.running import Command, one_line


def test_one_command_measures_and_writes_everything(tmp_path: Path, command: Command) -> None:
    report, prometheus = tmp_path / "report.html", tmp_path / "figures.prom"
    ran = command(
        *("simulate", "--clients", "0.9:3", "--slow", "1", "--modes", "lazy", "--partitions", 2),
        *("--rounds", 1),
        *("--size", "256KiB", "--generate", "codec=lz4", "--seconds", 0, "--json"),
        *("--report", report, "--prometheus", prometheus),
    )
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    (result,) = document["results"]
    assert result["workload"] == "codec=lz4,record=100..1000,size=256KiB,seed=1"
    assert result["failures"] == []
    assert result["modes"]["lazy"]["clients"]["0.9"]["wrong_answers"] == 0
    assert document["options"]["slow"] == "1"
    assert "--partitions 2" in document["command"]
    assert "<svg" in report.read_text()
    assert "simulation_broker_peak_bytes" in prometheus.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--clients", "0.7:1"], "is not KIND:COUNT"),
        (["--partitions", "3"], "--partitions needs --clients or --preset"),
        (["--prometheus", "x"], "--prometheus needs --clients or --preset"),
        (["--slow", "10%"], "a share of slow consumers needs --clients or --preset"),
        (["--slow", "x"], "neither a number of clients nor a share"),
        (["--preset", "herd", "IN.log"], "leave PATHS out"),
        (["--preset", "herd", "--partitions", "0"], "'--partitions': 0 is not in the range"),
        (["--preset", "herd", "--pause", "-1"], "'--pause': -1.0 is not in the range"),
        (["--clients", "0.8:1", "--partitions-per-fetch", "201"], "a fetch cannot ask for 201"),
        (["--clients", "0.8:1", "--slow", "100%"], "have to be fast"),
        (["--clients", "0.8:1", "--generate", "size=1", "--generate", "size=2"], "given once"),
        (["--clients", "0.8:1", "--report", "/no/such/place"], "there is no directory"),
    ],
)
def test_senseless_options_are_refused_in_a_line(
    arguments: list[str], words: str, command: Command
) -> None:
    ran = command("simulate", *arguments)
    assert ran.code == 2
    assert words in one_line(ran.err)
