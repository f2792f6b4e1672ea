"""The HTTP pages of a running gateway: health, metrics, which clients use old versions.

/healthz    200 while at least one process runs for each cluster; restart the gateway otherwise
/readyz     200 while a cluster answers and each of its brokers has its port, else 503 and why
/metrics    for Prometheus
/history    when old versions were seen last, by topic and principal, as JSON
/clients    the census, as JSON: what `downconvert gateway --report` reads

A gateway of several clusters has a page `/readyz/NAME` for each, too.

Not here: the metrics (metrics.py)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry

from downconvert.serving.pages import Page, Pages, json_page, metrics_page, state_page

from .clusters import ONLY
from .metrics import GatewayCollector
from .server import Running
from .session.last_old import Row
from .topology import Address

NOT_RUNNING: Final = "it is not running"


class Observation(Pages):
    """An HTTP server with threads of its own, until it is closed. OSError: no such port."""

    def __init__(
        self,
        gateway: Running | Mapping[str, Running],
        address: Address,
        history: Callable[[dict[str, list[Row]]], object] = lambda rows: rows,
    ) -> None:
        """`gateway`: of one cluster, or the gateways of several clusters by name. `history`:
        converts the times when old versions were last seen, by cluster, to the content of the
        page."""
        clusters = gateway if isinstance(gateway, Mapping) else {ONLY: gateway}
        registry = CollectorRegistry()
        registry.register(GatewayCollector(clusters))
        pages: dict[str, Page] = {
            "/healthz": state_page(partial(_ill, clusters)),
            "/readyz": state_page(partial(_unready, clusters)),
            "/metrics": metrics_page(registry),
            "/history": json_page(lambda: history(last_old(clusters))),
            "/clients": json_page(partial(_clients, clusters)),
        }
        for name, one in clusters.items():
            if name != ONLY:
                pages[f"/readyz/{name}"] = state_page(partial(_unready, {ONLY: one}))
        super().__init__(address.host, address.port, pages)
        self.address = Address(self.where.host, self.where.port)


def last_old(clusters: Mapping[str, Running]) -> dict[str, list[Row]]:
    """When old versions were seen last, by cluster."""
    return {name: one.figures().last_old for name, one in clusters.items()}


def _ill(clusters: Mapping[str, Running]) -> list[str]:
    """Reasons to restart the gateway."""
    return [_of(name, NOT_RUNNING) for name, one in clusters.items() if not one.is_alive]


def _unready(clusters: Mapping[str, Running]) -> list[str]:
    """Reasons to send no clients here. There are none while any of the clusters is served, because
    its clients need the gateway."""
    every = {name: one.figures().unready for name, one in clusters.items()}
    if not all(every.values()):
        return []
    return [_of(name, reason) for name, reasons in every.items() for reason in reasons]


def _clients(clusters: Mapping[str, Running]) -> list[dict[str, Any]]:
    """The census, with a column `cluster` if there are several clusters."""
    return [
        row if name == ONLY else {"cluster": name, **row}
        for name, one in clusters.items()
        for row in one.figures().clients
    ]


def _of(name: str, reason: str) -> str:
    return reason if name == ONLY else f"cluster {name}: {reason}"
