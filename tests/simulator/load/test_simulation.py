"""Simulations over TCP at smoke size: everybody is served rightly, within the broker's memory."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from downconvert.conversion import made
from records.units import KiB, MiB
from simulator import Workload
from simulator.load.metrics import write_prometheus
from simulator.load.options import Group, Slow, preset
from simulator.load.phases import Shares
from simulator.load.report import write_report
from simulator.load.results import LoadResult, LoadRun
from simulator.load.simulation import simulate_load
from simulator.load.table import fairness_lines, table, verdict
from simulator.rounds import Rounds
from tests.report_pages import check_fits_a_phone
from tests.simulator.loads import SMALL

OLD = 40


@pytest.fixture(scope="module")
def result() -> LoadResult:
    """Some clients of each age, some of the old ones slow, on a topic whose responses are
    recoded."""
    options = replace(
        SMALL,
        clients=(Group("0.8", OLD), Group("0.10", OLD), Group("3.x", 4)),
        slow=Slow(count=OLD // 2),
        rate=64 * KiB,
        workload=Workload(size=2 * MiB),
        modes=("lazy", "zero-copy"),
        max_bytes=MiB,
        seconds=0.2,
        rounds=1,
    )
    return simulate_load("smoke", options)


def runs_of(result: LoadResult) -> list[LoadRun]:
    return [run for rounds in result.modes.values() for run in rounds.each]


@pytest.mark.slow
def test_a_consumer_of_many_partitions_takes_little_memory_lazily_and_a_response_eagerly() -> None:
    options = replace(
        preset("kip-283", 16 * MiB), partitions=16, per_fetch=16, modes=("lazy", "eager"), rounds=1
    )
    found = simulate_load("kip-283", options)
    lazy, eager = (found.modes[mode].each[0] for mode in ("lazy", "eager"))
    assert found.failures() == []
    assert lazy.peak <= 8 * MiB
    assert eager.peak >= 16 * MiB
    assert eager.kinds["0.10.0"].size == lazy.kinds["0.10.0"].size >= 16 * MiB


def test_clients_may_read_an_eager_response_slowly() -> None:
    """It is larger than the sockets' buffers."""
    options = replace(
        SMALL,
        clients=(Group("0.10", 2),),
        slow=Slow(count=1),
        rate=16 * MiB,
        workload=Workload(size=16 * MiB),
        max_bytes=16 * MiB,
        partitions=1,
        modes=("eager",),
    )
    found = simulate_load("slow", options)
    assert found.failures() == []
    assert found.modes["eager"].each[0].kinds["0.10"].responses > 0


@pytest.mark.slow
def test_modes_take_turns_in_rounds_after_a_warm_up() -> None:
    steps: list[str] = []
    options = replace(SMALL, clients=(Group("0.10", 1),), modes=("eager", "lazy"), rounds=2)
    found = simulate_load("rounds", options, lambda what, _done, _total: steps.append(what))
    assert [step for step in steps if step not in ("generate", "plan")] == [
        *["warm-up"] * 2,
        *(f"{mode}, round 1 of 2" for mode in ("eager", "lazy")),
        *(f"{mode}, round 2 of 2" for mode in ("lazy", "eager")),
    ]
    assert found.failures() == []
    assert [len(rounds.each) for rounds in found.modes.values()] == [2, 2]
    assert next(cost.label for cost in found.costs) == "CPU per record"


@pytest.mark.slow
def test_every_response_to_every_kind_is_as_planned(result: LoadResult) -> None:
    assert result.failures() == []
    for run in runs_of(result):
        assert set(run.kinds) == {"0.8", "0.10", "3.x"}
        for kind, stats in run.kinds.items():
            assert stats.responses > 0, kind
            assert 0 < run.first_byte_of(kind, 50) <= run.last_byte_of(kind, 99)


def test_old_clients_take_64_kib_each_besides_what_all_of_them_share(result: LoadResult) -> None:
    large = 16 * 512 * KiB  # the first few conversions may have large chunks
    held = made.BUDGET  # messages that were made for the size of their response
    assert result.modes["lazy"].middle(lambda run: run.peak) <= large + held + 2 * OLD * 64 * KiB


def test_current_clients_are_measured_with_and_without_old_ones(result: LoadResult) -> None:
    assert result.alone is not None
    assert set(result.alone.each[0].kinds) == {"3.x"}
    (beside,), (alone,) = result.modes["lazy"].each, result.alone.each
    assert result.unfairness("lazy") == pytest.approx(beside.todays(99) / alone.todays(99))
    assert len(fairness_lines(result)) == 2


def test_cpu_time_is_divided_by_phase(result: LoadResult) -> None:
    run = result.modes["lazy"].each[0]
    phases = run.cpu(result.shares)
    assert sum(phases.values()) >= run.served.cpu * 0.99
    assert all(phases[phase] > 0 for phase in ("find and measure", "read", "convert", "send"))
    assert phases["decompress"] == phases["compress"] == 0
    assert result.modes["zero-copy"].each[0].cpu(result.shares)["convert"] == 0


def test_a_response_that_was_wrong_is_a_failure_in_words(result: LoadResult) -> None:
    stats = result.modes["lazy"].each[0].kinds["0.8"]
    stats.wrong = 2
    try:
        assert result.failures() == [
            "lazy: other bytes than planned reached clients of 0.8: 2 responses"
        ]
        assert "FAILED" in str(verdict(result))
    finally:
        stats.wrong = 0


def test_a_table_shows_modes_kinds_and_phases(result: LoadResult) -> None:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table(result), verdict(result))
    text = capture.get()
    for words in (
        "peak above idle",
        f"fetches of {OLD} clients of 0.8",
        "find and measure",
        "today's clients, p99",
        "every byte",
    ):
        assert words in text


def test_a_report_is_one_file_that_loads_nothing(result: LoadResult, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, [result], "downconvert simulate <x>")
    text = path.read_text()
    assert text.count("<svg") == 4
    assert "://" not in text
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|url\((?!#)", text)
    assert "downconvert simulate &lt;x&gt;" in text
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    check_fits_a_phone(path)


def test_figures_are_written_as_json_and_for_prometheus(result: LoadResult, tmp_path: Path) -> None:
    document = json.loads(json.dumps(result.to_json()))
    assert document["failures"] == []
    lazy = document["modes"]["lazy"]
    assert lazy["clients"]["0.8"]["fetch_version"] == 0
    assert document["modes"]["zero-copy"]["clients"]["0.8"]["fetch_version"] == 12
    samples = for_prometheus(result, tmp_path)
    assert samples["simulation_broker_peak_bytes", "lazy", None] == lazy["peak_bytes"]
    assert samples["simulation_wrong_answers", "alone", "3.x"] == 0
    assert samples["simulation_answers", "lazy", "0.10"] == sum(
        one["clients"]["0.10"]["answers"] for one in lazy["rounds"]
    )


def test_a_rate_is_the_same_in_json_and_for_prometheus(result: LoadResult, tmp_path: Path) -> None:
    """Rounds of very different length: the median of rates is no ratio of medians."""
    [run] = result.modes["lazy"].each
    runs = []
    for seconds, factor in ((1.0, 4), (2.0, 1), (5.0, 3)):
        [stats] = run.stats[:1]
        kinds = {"0.8": replace(run.kinds["0.8"], size=1000 * factor, records=10 * factor)}
        groups = tuple(group for group in run.groups if group.kind == "0.8")
        measured = replace(stats, kinds=kinds, seconds=seconds)
        runs.append(replace(run, groups=groups, stats=[measured]))
    several = replace(result, modes={"lazy": Rounds(runs)}, alone=None)
    samples = for_prometheus(several, tmp_path)
    shown = several.to_json()["modes"]["lazy"]["clients"]["0.8"]
    assert shown["bytes_per_second"] == 600
    assert samples["simulation_bytes_per_second", "lazy", "0.8"] == 600
    assert samples["simulation_records_per_second", "lazy", "0.8"] == 6


def for_prometheus(result: LoadResult, directory: Path) -> dict[tuple[str, str, str | None], float]:
    """The samples by name, mode and kind."""
    path = directory / "figures.prom"
    write_prometheus(path, [result])
    return {
        (sample.name, sample.labels["mode"], sample.labels.get("kind")): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def test_the_time_of_conversions_is_divided_among_their_steps_without_sending(
    result: LoadResult,
) -> None:
    [run] = result.modes["lazy"].each
    served = replace(run.served, finding=0.0, converting=1.0, turning=2.0, sending=3.0, cpu=7.0)
    phases = replace(run, served=served).cpu(Shares(read=0.1, convert=0.4, send=0.5))
    assert phases["read"] == pytest.approx(0.2 + 0.2)
    assert phases["convert"] == pytest.approx(0.8 + 0.8)
    assert phases["send"] == pytest.approx(3.0 + 1.0)
    assert phases["event loop"] == pytest.approx(1.0)
