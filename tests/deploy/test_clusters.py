"""Several clusters: one gateway for each, and one page of metrics with a label for the cluster."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.cli.gateways import gateway
from tests.downconvert.gateway.serving import Wire, cluster
from tests.ports import LOOPBACK, free_ports
from tests.programs import needs, running
from tests.waiting import wait_for

from .test_alerts import is_ready, values

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CLUSTERS: Final = ("east", "west")

pytestmark = [pytest.mark.others, needs("prometheus")]


def config() -> Any:
    return yaml.safe_load((DEPLOY / "prometheus.yml").read_text())


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[int]:
    """One with the settings of deploy/, which observes two gateways. To the one for `east` two
    clients are connected, to the other one."""
    with ExitStack() as stack:
        http, (port,) = dict(zip(CLUSTERS, free_ports(2), strict=True)), free_ports(1)
        for count, name in zip((2, 1), CLUSTERS, strict=True):
            (tmp_path / name).mkdir()
            _, behind = stack.enter_context(cluster(tmp_path / name, f"topic-of-{name}"))
            pages = ("--http", f"{LOOPBACK}:{http[name]}")
            front = stack.enter_context(gateway(behind, *pages))
            front.ready()
            for _ in range(count):
                client = stack.enter_context(Wire(front.address))
                topics = client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
                assert [one.name for one in topics] == [f"topic-of-{name}"]
        settings = config()
        settings["global"]["scrape_interval"] = "200ms"
        settings["rule_files"] = [str(DEPLOY / name) for name in settings["rule_files"]]
        for group in settings["scrape_configs"][0]["static_configs"]:
            group["targets"] = [f"{LOOPBACK}:{http[group['labels']['cluster']]}"]
        file = tmp_path / "prometheus.yml"
        file.write_text(yaml.safe_dump(settings))
        where = f"--web.listen-address={LOOPBACK}:{port}"
        command = ("prometheus", f"--config.file={file}", where)
        store = f"--storage.tsdb.path={tmp_path / 'prometheus'}"
        stack.enter_context(running((*command, store), lambda: is_ready(port)))
        wait_for(lambda: len(values(port, "up == 1")) == len(CLUSTERS))
        yield port


def test_one_page_has_the_metrics_of_all_clusters_with_a_label(prometheus: int) -> None:
    def connections() -> dict[str, str]:
        found = values(prometheus, "sum by (cluster) (downconvert_gateway_connections)")
        return {one["metric"]["cluster"]: one["value"][1] for one in found}

    wait_for(lambda: connections() == {"east": "2", "west": "1"})
    query = urlencode({"match[]": '{job="downconvert-gateway"}'})
    with urlopen(f"http://{LOOPBACK}:{prometheus}/federate?{query}") as page:
        lines = page.read().decode().splitlines()
    ready = [one for one in lines if one.startswith("downconvert_gateway_ready{")]
    assert len(ready) == len(CLUSTERS)
    assert all(any(f'cluster="{name}"' in line for line in ready) for name in CLUSTERS)


def test_the_rules_that_it_names_are_there() -> None:
    assert all((DEPLOY / name).is_file() for name in config()["rule_files"])
