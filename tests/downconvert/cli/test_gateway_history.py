"""When can the gateway be removed? The history, across restarts and for several gateways."""

import json
import os
import time
from pathlib import Path

import pytest

from downconvert.cli.gateway_history import History
from downconvert.cli.report_topics import conclusion, joined
from downconvert.gateway.clusters import ONLY
from downconvert.protocol.schemas import ApiKey
from tests.downconvert.gateway.talk import fetch_body
from tests.ports import LOOPBACK, free_ports

from .gateways import gateway, produce
from .running import Command, one_line


@pytest.mark.parametrize("workers", [1, 2])
def test_dates_survive_a_restart_of_the_gateway(
    port: int, command: Command, tmp_path: Path, workers: int
) -> None:
    file = tmp_path / "history.json"
    began = time.time()
    for run in range(2):
        (http,) = free_ports(1)
        options = ("--http", f"{LOOPBACK}:{http}", "--history", file, "--workers", workers)
        with gateway(port, *options) as running:
            running.ready()
            if run == 0:
                produce(running)
                written = time.time()
            running.ask(ApiKey.Fetch, 12, fetch_body(0))  # which needs no gateway
            report = ("gateway", "--report", f"{LOOPBACK}:{http}", "--by", "topic")
            page = json.loads(command(*report, "--json").out)
            ((topic, principal, seconds),) = page["rows"]
            assert (topic, principal) == ("t", "")
            assert began <= page["since"] <= seconds == page["last_old"] <= written
            assert "No old version was seen since" in command(*report).out
            assert running.end()[0] == 0
    assert json.loads(file.read_text())["rows"] == [["t", "", seconds]]


def test_a_history_is_on_the_disk_before_it_replaces_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure there is one of the two. With half of one no gateway starts."""
    file, synced = tmp_path / "history.json", list[int]()

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        assert not file.exists()

    monkeypatch.setattr(os, "fsync", fsync)
    History(file).store({ONLY: [("t", "ann", 5.0)]})
    assert synced == [file.stat().st_size]


def test_the_reports_of_several_gateways_are_one(port: int, command: Command) -> None:
    https = free_ports(2)
    where = [("--http", f"{LOOPBACK}:{http}") for http in https]
    with gateway(port, *where[0]) as one, gateway(port, *where[1]) as other:
        for running in (one, other):
            running.ready()
            produce(running)
        urls = [part for http in https for part in ("--report", f"{LOOPBACK}:{http}")]
        (row,) = json.loads(command("gateway", *urls, "--by", "topic", "--json").out)["rows"]
        assert row[0] == "t"
        (group,) = json.loads(command("gateway", *urls, "--by", "prefix", "--json").out)
        assert (group["requests"], group["clients"]) == (2, 1)


def test_merged_rows_have_the_latest_date_and_the_latest_beginning() -> None:
    pages = [
        {"since": 10.0, "rows": [["a", "p", 20.0], ["b", "p", 30.0]]},
        {"since": 15.0, "rows": [["a", "p", 25.0]]},
    ]
    page = joined(pages)
    assert page == {"since": 15.0, "last_old": 30.0, "rows": [["b", "p", 30.0], ["a", "p", 25.0]]}
    assert conclusion(page, 30.0 + 86_400).endswith(": 1.0 days.")
    assert conclusion(page, 30.0 + 5400).endswith(": 1.5 hours.")
    none = joined([{"since": 15.0, "rows": []}])
    assert "when the gateway began to look: 2.0 days." in conclusion(none, 15.0 + 2 * 86_400)


def test_a_page_by_topic_is_refused_and_not_left_out(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "old.html"
    ran = command("gateway", "--report", LOOPBACK, "--by", "topic", "--html", page)
    assert ran.code == 2
    assert "--by topic makes no page" in one_line(ran.err)
    assert not page.exists()


def test_a_file_that_is_not_a_history_is_named(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    for text in ("[]", "{", '{"since": 1, "rows": [1]}'):
        file.write_text(text)
        ran = command("gateway", "--bootstrap", "k:1", "--history", file)
        assert ran.code == 2
        assert "no history of a gateway" in one_line(ran.err)
