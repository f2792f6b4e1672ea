"""What does the dashboard of deploy/ show for a busy broker and gateway?

`downconvert serve --writable`, and `downconvert gateway` in front of a real broker of Kafka 4,
serve old clients for some minutes, while a real Prometheus scrapes them. Then each panel's queries
in deploy/grafana-dashboard.json are sent to Prometheus, and the responses are drawn at the panels'
positions. Grafana itself is not used. Titles, positions, units, queries and legends are those of
the dashboard, but colours and lines are not. This needs the command `prometheus` (Debian's package)
and Java.

    python -m bench.dashboard --minutes 6 --into docs"""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

import click

from records.units import MiB
from tests import kafka_server
from tests.ports import LOOPBACK, free_ports, wait_for_server

from .servers.gateway_clients import in_front
from .servers.processes import ROOT, served
from .soaking.dashboard_load import TICK, DashboardLoad

DASHBOARD: Final = ROOT / "deploy" / "grafana-dashboard.json"
STEP: Final = 5  # seconds between two scrapes, and two points
# The values of Grafana's variables: all jobs and clusters, and an interval of four scrapes.
VARIABLES: Final = {"$job": ".*", "$cluster": ".*", "$__rate_interval": f"{4 * STEP}s"}
RATES: Final = {"serve": 80_000, "gateway": 60_000}  # bytes a second that a client may fetch
COLUMNS: Final = 24
SERIES_SHOWN: Final = 9  # in a legend
LONG: Final = 20  # letters of a series' name: longer ones get a line each
SHOWN: Final = re.compile(r"{{(\w+)}}")
PATIENCE: Final = 60.0  # seconds for Prometheus to start or to answer

# By unit of a panel: the divisor of a value, and the text after it.
UNITS: Final[dict[str, tuple[float, str]]] = {
    "short": (1, ""),
    "reqps": (1, "requests/s"),
    "s": (1e-3, "ms"),
    "bytes": (MiB, "MiB"),
    "Bps": (1000, "kB/s"),
    "percentunit": (0.01, "%"),
}


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel. place: column, row, width and height, in cells. queries: with their legends."""

    title: str
    place: tuple[int, int, int, int]
    unit: str
    queries: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Line:
    """One series in a panel: its name, seconds since the beginning, and values."""

    name: str
    seconds: list[float]
    values: list[float]


class _Margin(NamedTuple):
    """The margins of a panel, in cells: for its title, its numbers, and its legend."""

    left: float = 0.9
    right: float = 0.3
    above: float = 1.0
    below: float = 2.2


MARGIN: Final = _Margin()
Drawn = tuple[Panel, list[Line]]


def sections(dashboard: dict[str, Any]) -> dict[str, list[Panel]]:
    """The panels below each row's title."""
    found = dict[str, list[Panel]]()
    for one in dashboard["panels"]:
        if one["type"] == "row":
            found[one["title"]] = []
            continue
        cells = one["gridPos"]
        queries = [(target["expr"], target["legendFormat"]) for target in one["targets"]]
        unit = one["fieldConfig"]["defaults"]["unit"]
        place = (cells["x"], cells["y"], cells["w"], cells["h"])
        list(found.values())[-1].append(Panel(one["title"], place, unit, queries))
    return found


def as_sent(expression: str) -> str:
    """A panel's query as Grafana sends it to Prometheus."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def lines(response: dict[str, Any], legend: str, start: float) -> list[Line]:
    """The series in Prometheus's response to a query over a range."""
    found = []
    for one in response["data"]["result"]:
        name = legend
        for label in SHOWN.findall(legend):
            name = name.replace("{{" + label + "}}", one["metric"].get(label, ""))
        points = [(at - start, float(value)) for at, value in one["values"]]
        points = [(at, value) for at, value in points if value == value]  # without NaN
        if points:
            found.append(Line(name, [at for at, _ in points], [value for _, value in points]))
    return found


def draw(title: str, panels: list[Drawn], path: Path) -> None:
    """One section of the dashboard as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "dashboard", "font.size": 7})
    from matplotlib import pyplot

    top = min(panel.place[1] for panel, _ in panels) - 1  # the section's own title is above
    rows = max(panel.place[1] + panel.place[3] for panel, _ in panels) - top
    figure = pyplot.figure(figsize=(COLUMNS / 2, rows / 3))
    figure.text(0.01, 1 - 0.7 / rows, title, fontsize=11, fontweight="bold")
    end = max(at for _, drawn in panels for line in drawn for at in line.seconds) / 60
    for panel, drawn in panels:
        x, y, width, height = panel.place
        left, below = (x + MARGIN.left) / COLUMNS, 1 - (y - top + height - MARGIN.below) / rows
        inside = (width - MARGIN.left - MARGIN.right, height - MARGIN.above - MARGIN.below)
        axes = figure.add_axes((left, below, inside[0] / COLUMNS, inside[1] / rows))
        share, unit = UNITS[panel.unit]
        axes.set_title(f"{panel.title}{f', {unit}' if unit else ''}", loc="left", fontsize=8)
        for number, line in enumerate(drawn):
            name = line.name if number < SERIES_SHOWN else "_"
            minutes = [at / 60 for at in line.seconds]
            axes.plot(minutes, [value / share for value in line.values], lw=1.2, label=name)
        if drawn:
            axes.legend(
                fontsize=6,
                ncols=1 if max(len(line.name) for line in drawn) > LONG else 3,
                frameon=False,
                columnspacing=1,
                loc="upper left",
                bbox_to_anchor=(-0.05, -0.12),
            )
        else:
            axes.text(0.5, 0.5, "no data", ha="center", transform=axes.transAxes, color="gray")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, end)
        axes.grid(color="#e3e7ee")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def prometheus_command(
    directory: Path, jobs: dict[str, int], interval: str
) -> tuple[tuple[str, ...], int]:
    """The command that starts a Prometheus which scrapes these ports, and its own port."""
    (port,) = free_ports(1)
    scrapes = [
        {"job_name": job, "static_configs": [{"targets": [f"{LOOPBACK}:{at}"]}]}
        for job, at in jobs.items()
    ]
    config = directory / "prometheus.yml"  # JSON is YAML
    every = {"scrape_interval": interval}
    config.write_text(json.dumps({"global": every, "scrape_configs": scrapes}))
    command = (
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'prometheus'}",
        f"--web.listen-address={LOOPBACK}:{port}",
    )
    return command, port


@contextmanager
def prometheus(directory: Path, jobs: dict[str, int]) -> Iterator[int]:
    """A Prometheus that scrapes these ports. Yields its own port."""
    command, port = prometheus_command(directory, jobs, f"{STEP}s")
    log = directory / "prometheus.log"
    with log.open("w") as log_file, subprocess.Popen(command, stderr=log_file) as process:
        try:
            wait_for_server(port, process, log.read_text, PATIENCE)
            yield port
        finally:
            process.terminate()


def ask(port: int, query: str, start: float, end: float) -> dict[str, Any]:
    parameters = urlencode({"query": query, "start": start, "end": end, "step": STEP})
    with urlopen(
        f"http://{LOOPBACK}:{port}/api/v1/query_range?{parameters}", timeout=PATIENCE
    ) as page:
        response: dict[str, Any] = json.load(page)
    return response


def run(directory: Path, seconds: float) -> dict[str, list[Drawn]]:
    """Runs servers and clients. Returns the panels of each section, with their series."""
    configs = {name: directory / f"{name}.toml" for name in RATES}
    for name, path in configs.items():
        path.write_text(f"consumer_byte_rate = {RATES[name]}\n")
    (directory / "log").mkdir()
    writable = ("--writable", "--metrics-port=0", "--access", str(configs["serve"]))
    with ExitStack() as stack:
        broker = stack.enter_context(served(directory / "log", *writable))
        kafka = stack.enter_context(kafka_server.running(kafka_server.NEW))
        shown = ("--http", f"{LOOPBACK}:0", "--config", str(configs["gateway"]))
        gateway = stack.enter_context(in_front(kafka.bootstrap, *shown))
        pages = {"serve": broker.metrics_port, "gateway": gateway.metrics_port}
        jobs = {name: port for name, port in pages.items() if port is not None}
        port = stack.enter_context(prometheus(directory, jobs))
        loads = [DashboardLoad(one.address, stack) for one in (broker, gateway)]
        start = time.time()
        while (passed := time.time() - start) < seconds:
            for load in loads:
                load.step(passed / seconds)
            time.sleep(max(0.0, TICK - (time.time() - start - passed)))
        end = time.time()
        return {
            title: [(panel, list(shown_by(panel, port, start, end))) for panel in panels]
            for title, panels in sections(json.loads(DASHBOARD.read_text())).items()
        }


def shown_by(panel: Panel, port: int, start: float, end: float) -> Iterator[Line]:
    for query, legend in panel.queries:
        yield from lines(ask(port, as_sent(query), start, end), legend, start)


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--minutes", default=6.0, show_default=True)
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), default="docs")
def main(minutes: float, into: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="dashboard-") as directory:
        found = run(Path(directory), minutes * 60)
    for title, panels in found.items():
        path = into / f"dashboard-{title.split()[-1]}.png"
        draw(title, panels, path)
        click.echo(f"{path}: {title}")
        for panel, drawn in panels:
            click.echo(f"  {panel.title}: {len(drawn)} series")


if __name__ == "__main__":
    main()
