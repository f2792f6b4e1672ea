"""deploy/grafana-dashboard.json: each of its queries finds something in what servers expose."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import parsed
from tests.downconvert.broker.talking import SECONDS, TOPIC, Talk, fetch
from tests.downconvert.cli.running import start
from tests.downconvert.storage import logs
from tests.ports import free_ports
from tests.waiting import wait_for

DASHBOARD: Final = json.loads(
    (Path(__file__).parents[2] / "deploy" / "grafana-dashboard.json").read_text()
)
NAME: Final = re.compile(r"\bdownconvert_\w+")
GROUPED: Final = re.compile(r"\bby \(([^)]*)\)")
SHOWN: Final = re.compile(r"{{(\w+)}}")
RATE: Final = 200  # bytes a second: less than one response takes, or one produce
OF_PROMETHEUS: Final = {"instance", "job"}  # which the scrape adds


def targets() -> Iterator[tuple[str, str]]:
    """Each query of each panel, and what its legend shows."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The names of samples, with their labels, of a broker and a gateway that have served."""
    directory = tmp_path_factory.mktemp("kafka")
    logs.segment(directory / f"{TOPIC}-0", 0, logs.batch(*range(10)))
    with ExitStack() as stack:
        listen = ("--listen", "127.0.0.1:0", "--json")
        rates = {kind: directory / f"{kind}.toml" for kind in ("producer", "consumer")}
        for kind, path in rates.items():
            path.write_text(f"{kind}_byte_rate = {RATE}\n")
        writable = ("--writable", "--metrics-port", 0, "--access", rates["producer"])
        broker = ready(stack, "serve", directory, *listen, *writable)
        bootstrap = f"127.0.0.1:1,127.0.0.1:{broker['port']}"  # nobody listens at port 1
        options = ("--bootstrap", bootstrap, "--http", "127.0.0.1:0", "--config", rates["consumer"])
        node = ("--node-port", f"0={free_ports(1)[0]}")
        gateway = ready(stack, "gateway", *listen, *node, *options)
        for one in (broker, gateway):
            use((one["host"], one["port"]))
        pages = (broker["metricsPort"], gateway["httpPort"])
        wait_for(lambda: all("connections_ended_total{" in scraped(port) for port in pages))
        found = defaultdict[str, set[str]](set)
        for port in pages:
            for family in text_string_to_metric_families(scraped(port)):
                for sample in family.samples:
                    found[sample.name].update(sample.labels)
    return found


def ready(stack: ExitStack, *arguments: object) -> dict[str, Any]:
    """The first line of a command, once it is ready. The stack ends the command."""
    process = start(*arguments)
    stack.enter_context(process)
    stack.callback(process.kill)
    line = process.stdout.readline() if process.stdout is not None else ""
    assert line, process.stderr.read() if process.stderr is not None else ""
    document: dict[str, Any] = json.loads(line)
    return document


def use(address: tuple[str, int]) -> None:
    """Sends an old consumer's requests, one of them wrong, and a transaction. The request that
    exceeds its rate comes last."""
    with Talk(address) as talk:
        committed = Message(partition_index=0, committed_offset=3, committed_metadata="")
        topics = [Message(name=TOPIC, partitions=[committed])]
        talk.ask(ApiKey.OffsetCommit, 0, Message(group_id="g", topics=topics))
        begin = Message(transactional_id="tx", transaction_timeout_ms=10_000)
        begun = talk.ask(ApiKey.InitProducerId, 1, begin)
        producer = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
        transaction = Message(transactional_id="tx", group_id="g", committed=True, **producer)
        talk.ask(ApiKey.AddOffsetsToTxn, 1, transaction)
        assert not talk.ask(ApiKey.EndTxn, 1, transaction).error_code
        partition = Message(index=0, records=logs.batch(0, size=RATE))
        data = [Message(name=TOPIC, partition_data=[partition])]
        talk.send(ApiKey.Fetch, 4, fetch(offset=10_000))
        talk.send(ApiKey.Fetch, 0, fetch())
        talk.send(ApiKey.Produce, 3, Message(acks=1, timeout_ms=1000, topic_data=data))
        for api, version in ((ApiKey.Fetch, 4), (ApiKey.Fetch, 0), (ApiKey.Produce, 3)):
            parsed(api, version, talk.receive())


def scraped(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as page:
        text: str = page.read().decode()
    return text


def test_there_are_panels_for_both_servers() -> None:
    queries = " ".join(query for query, _ in targets())
    assert {name.split("_")[1] for name in NAME.findall(queries)} == {"broker", "gateway"}


# Nothing here makes a defect of a server.
NEVER: Final = {"downconvert_broker_failed_requests_total": {"api"}}


@pytest.mark.parametrize(("query", "legend"), list(targets()))
def test_a_query_finds_what_it_asks_for(
    query: str, legend: str, exposed: dict[str, set[str]]
) -> None:
    names = NAME.findall(query)
    assert names
    for name in names:
        labels = exposed.get(name) if name not in NEVER else NEVER[name]
        assert labels is not None, f"{name} is not exposed"
        asked = {label.strip() for text in GROUPED.findall(query) for label in text.split(",")}
        asked |= {label for label in SHOWN.findall(legend) if not GROUPED.search(query)}
        assert asked <= labels | OF_PROMETHEUS
    if GROUPED.search(query):
        grouped = {one.strip() for text in GROUPED.findall(query) for one in text.split(",")}
        assert set(SHOWN.findall(legend)) <= grouped


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
