"""Results of measurements: failures, words, tables, and the page."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from records.units import MiB
from simulator import MODES, Options
from simulator.fetch.consumers import Reading
from simulator.fetch.driver import Tally
from simulator.fetch.fetches import Fetch
from simulator.fetch.metrics import FIGURES
from simulator.fetch.plan import Plan, Response
from simulator.fetch.plots import throughput
from simulator.fetch.report import write_report
from simulator.fetch.results import Result, Run, Sent
from simulator.fetch.table import headline, table, verdict
from simulator.modes import Mode
from simulator.rounds import Rounds
from tests.report_pages import check_fits_a_phone

PEAKS: dict[Mode, int] = {"lazy": 2 * MiB, "eager": 40 * MiB, "zero-copy": 0}


def run_of(mode: Mode) -> Run:
    response = Response(1000, b"", 10, 0 if mode == "zero-copy" else 10, 0)
    reading = Reading(
        seconds=2.0,
        size=4_000_000,
        records=20_000,
        responses=400,
        first_bytes=[0.004, 0.001],
        latencies=[0.02, 0.01],
    )
    sent = Sent("native", Tally(400, 4_000_000, 4_000_000), 10 * MiB, PEAKS[mode], 0.5)
    timeline = [(0.0, 0), (0.5, PEAKS[mode]), (1.0, PEAKS[mode] // 2)]
    plan = Plan([Fetch(0, 0, 900, 0)], [response])
    return Run(plan, sent, reading, timeline)


@pytest.fixture
def result() -> Result:
    modes = {mode: Rounds([run_of(mode)]) for mode in MODES}
    return Result("codec=none", 1, 900, Options(rounds=1), modes, [])


def printed(result: Result, width: int) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(headline(result), table(result), verdict(result), sep="\n")
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_correct_run_has_no_failures(result: Result) -> None:
    assert result.failures() == []


def test_each_check_that_fails_is_named_with_its_mode(result: Result) -> None:
    lazy, eager = result.modes["lazy"].each[0], result.modes["eager"].each[0]
    lazy.plan.different = 2
    eager.sent.tally.broken = 1
    lazy.reading.wrong = 3
    lazy.plan.responses[0] = lazy.plan.responses[0]._replace(records=9)
    assert result.failures() == [
        "lazy: not the bytes of the eager conversion: 2 responses",
        "lazy: other bytes than planned reached a consumer: 3 responses",
        "eager: not of the size promised: 1 response",
        "the modes do not deliver the same number of records: lazy 9, eager 10, zero-copy 10",
    ]
    assert printed(result, 100).count("FAILED  ") == 4


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("peak above idle", ("20x less", True)),
        ("first byte, p50", ("same", None)),
        ("bytes sent", ("", None)),
    ],
)
def test_lazy_is_compared_with_eager_in_words(
    label: str, words: tuple[str, bool | None], result: Result
) -> None:
    (figure,) = (figure for figure in FIGURES if figure.label == label)
    assert figure.comparison(result.modes) == words


def test_each_figure_states_whether_more_is_better(result: Result) -> None:
    result.modes["lazy"].each[0].reading.seconds = 1.0
    by_label = {figure.label: figure for figure in FIGURES}
    assert by_label["records a second"].comparison(result.modes) == ("2.0x more", True)
    result.modes["lazy"].each[0].sent.cpu_seconds = 5.0
    assert by_label["CPU per record"].comparison(result.modes) == ("10x more", False)


def test_a_figure_that_does_not_repeat_is_neither_good_nor_bad(
    result: Result, tmp_path: Path
) -> None:
    runs = [run_of("lazy") for _ in range(3)]
    for run, seconds in zip(runs, (0.01, 0.02, 0.03), strict=True):
        run.sent.cpu_seconds = seconds
    result.modes["lazy"] = Rounds(runs)
    (cpu,) = (figure for figure in FIGURES if figure.label == "CPU per record")
    assert cpu.comparison(result.modes) == ("25x less", None)
    write_report(tmp_path / "report.html", [result], Options(), "downconvert simulate")
    tile = '<div class="figure same">1 us</div><div class="beside">eager 25 us <b class="same">'
    assert tile in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("width", [80, 100])
def test_a_table_fits_on_a_terminal(width: int, result: Result) -> None:
    text = printed(result, width)
    assert max(map(len, text.splitlines())) <= width
    for figure in FIGURES:
        assert figure.label in text
    assert "2 MiB" in text
    assert "40 MiB" in text


def test_a_table_of_one_mode_compares_nothing(result: Result) -> None:
    alone = replace(result, modes={"lazy": result.modes["lazy"]})
    assert "vs" not in printed(alone, 80)


def test_the_page_names_everything_and_loads_nothing(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    broken = replace(result, name="<b>&", damage=["x.log: torn"])
    broken.modes["lazy"].each[0].plan.broken = 1
    write_report(path, [result, broken], Options(rounds=1), "downconvert simulate 'a b'")
    page = path.read_text()
    assert page.count("<svg") == 6
    assert "://" not in page
    assert "<b>&" not in page.replace('<b class="', "")
    assert "&lt;b&gt;&amp;" in page
    assert "read only up to its damage: x.log: torn" in page
    assert "lazy: not of the size promised: 1 response" in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    check_fits_a_phone(path)


def test_json_holds_every_figure(result: Result) -> None:
    document = result.to_json()
    assert document["failures"] == []
    lazy = document["modes"]["lazy"]
    assert lazy["peak_bytes"] == 2 * MiB
    assert lazy["first_byte_seconds"] == {"p50": 0.001, "p90": 0.004, "p99": 0.004, "p100": 0.004}
    assert lazy["memory_over_time"] == [[0.0, 0], [0.5, 2 * MiB], [1.0, MiB]]
    assert (lazy["bytes_per_second"], lazy["records_per_second"]) == (2_000_000, 10_000)


def test_rounds_are_shown_with_their_spread(result: Result, tmp_path: Path) -> None:
    runs = [run_of("lazy") for _ in range(3)]
    for run, cpu in zip(runs, (0.5, 0.9, 0.6), strict=True):
        run.sent.cpu_seconds = cpu
    modes: dict[Mode, Rounds[Run]] = {
        "lazy": Rounds(runs),
        "eager": Rounds([run_of("eager") for _ in range(3)]),
    }
    found = replace(result, modes=modes, options=Options())
    text = printed(found, 80)
    busy = "inconclusive: the machine was busy (CPU per record: rounds differ by 67 %"
    assert busy in " ".join(text.split())
    assert "1.20x" in text
    assert max(map(len, text.splitlines())) <= 80
    write_report(tmp_path / "report.html", [found], Options(), "downconvert simulate")
    page = (tmp_path / "report.html").read_text()
    assert "<th>spread</th>" in page
    assert busy in page
    document = found.to_json()
    assert document["modes"]["lazy"]["cpu_seconds"] == 0.6
    assert [one["cpu_seconds"] for one in document["modes"]["lazy"]["rounds"]] == [0.5, 0.9, 0.6]
    cpu = document["lazy_beside_eager"][0]
    assert (cpu["figure"], cpu["is_met"]) == ("CPU per record", None)
    assert cpu["ratio"] == pytest.approx(1.2)


def test_the_bars_of_throughput_have_the_figures_of_the_table() -> None:
    """Two rounds have two middle values."""
    slow = replace(run_of("lazy").reading, seconds=4.0)
    rounds = Rounds([run_of("lazy"), replace(run_of("lazy"), reading=slow)])
    two = Result("codec=none", 1, 900, Options(rounds=2), {"lazy": rounds}, [])
    assert ">10 k records/s<" in throughput(two).replace("\n", "")
    assert "10 k" in printed(two, 100)
