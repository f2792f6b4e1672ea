"""Which metrics do the servers expose? docs/metrics.md, from a server and a gateway's collector.

    python -m bench.metrics_reference

A test compares the file with the output of this."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.endings import End
from downconvert.broker.operating.maintenance import Maintenance
from downconvert.broker.operating.metrics_server import MetricsServer
from downconvert.broker.server import Server
from downconvert.broker.transactions.counts import Outcome
from downconvert.gateway import figures
from downconvert.gateway.clusters import ONLY
from downconvert.gateway.metrics import GatewayCollector
from downconvert.serving.series import CLIENTS_MAX, OTHERS, TOPICS_MAX
from downconvert.storage import LogDir

PAGE: Final = Path(__file__).parents[1] / "docs" / "metrics.md"
HEAD: Final = f"""# Metrics

This page is written from the code (`python -m bench.metrics_reference`). A counter's name ends in
`_total`. A histogram has series that end in `_bucket`, `_sum` and `_count`. Sizes are bytes, times
are seconds.

The number of series is bounded. The first {CLIENTS_MAX} clients and the first {TOPICS_MAX:,} topics
since the start keep their names. The others are counted together as `{OTHERS}`.
"""
SERVER: Final = """
## Server

`downconvert serve --metrics-port PORT`. All names begin with `downconvert_broker_`.
"""
GATEWAY: Final = """
## Gateway

`downconvert gateway --http HOST:PORT`. All names begin with `downconvert_gateway_`. The figures are
those of all processes together. With
[several clusters](gateway-operation.md#several-clusters), all series have a label `cluster` too,
except `build_info`, `processes`, `restarted_processes`, `cpu_seconds` and `resident_memory_bytes`.
"""


def reference() -> str:
    """The whole page."""
    lines = [HEAD, SERVER, *_table(_of_server())]
    lines += ["", f"`reason`: {_listed(End)}.", "", f"`outcome`: {_listed(Outcome)}."]
    lines += [GATEWAY, *_table(_of_gateway())]
    lines += ["", f"`reason`: {_listed(figures.End)}."]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _of_server() -> list[Any]:
    with TemporaryDirectory() as folder, LogDir.open(folder, writable=True) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True, cleans_up=False))
        maintenance = Maintenance(broker)  # registers its metrics, and starts no thread
        with Server(broker) as server, MetricsServer(server, "127.0.0.1", 0):
            families = list(_families(broker.metrics.registry))
        maintenance.close()
    return families


def _of_gateway() -> list[Any]:
    running = SimpleNamespace(figures=figures.Figures)
    return list(GatewayCollector({ONLY: running}).collect())


def _families(registry: CollectorRegistry) -> Iterator[Collector | Metric]:
    for collector in list(registry._collector_to_names):  # unused metrics show no labels on a page
        if isinstance(collector, MetricWrapperBase):
            yield collector
        else:
            yield from collector.collect()


def _table(families: Iterable[Any]) -> Iterator[str]:
    yield "| name | type | labels | what it says |"
    yield "|---|---|---|---|"
    rows = {}
    for family in families:
        wrapped = isinstance(family, MetricWrapperBase)
        name, kind, text = (
            (family._name, family._type, family._documentation)
            if wrapped
            else (family.name, family.type, family.documentation)
        )
        called = name.split("_", 2)[2] + ("_total" if kind == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in family._labelnames)
        rows[called] = f"| `{called}` | {kind} | {labels} | {text} |"
    yield from (rows[name] for name in sorted(rows))


def _listed(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


if __name__ == "__main__":
    PAGE.write_text(reference())
    print(PAGE)
