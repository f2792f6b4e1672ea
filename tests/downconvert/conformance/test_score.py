"""A broker that does not last, or keeps its topics. Counting findings."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.conformance import score
from downconvert.conformance.connection import ConformanceError, Connection
from downconvert.conformance.judge import Case, Finding
from downconvert.conformance.page import markdown
from downconvert.conformance.score import Score, judge
from downconvert.conformance.writing import Cluster, Written
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.ports import LOOPBACK


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with (
        LogDir.open(tmp_path, writable=True) as log_dir,
        Server(Broker(log_dir, BrokerConfig(is_writable=True)), (LOOPBACK, 0)) as running,
    ):
        yield running


def judged(server: Server, *names: str) -> Score:
    return judge(*server.address, names=names, step=lambda *_: None)


def test_a_broker_that_goes_away_cannot_be_judged_and_its_topics_are_named(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = score.cases

    def leaving(cluster: Cluster, written: Written) -> Iterator[Case]:
        for number, case in enumerate(cases(cluster, written)):
            if number == 3:
                server.__exit__(None, None, None)
            yield case

    monkeypatch.setattr(score, "cases", leaving)
    with pytest.raises(ConformanceError, match=r"refused; topics conformance-\w+-… are still"):
        judged(server, "odd")


def test_topics_that_the_broker_does_not_delete_are_named(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Connection.ask

    def refusing(asked: Connection, api: ApiKey, version: int, body: Message) -> Message:
        if api is not ApiKey.DeleteTopics:
            return ask(asked, api, version, body)
        [name] = body.topic_names
        return Message(responses=[Message(name=name, error_code=73)])

    monkeypatch.setattr(Connection, "ask", refusing)
    found = judged(server, "odd")
    [left] = found.left
    assert left.endswith("-odd (error 73)")
    assert f"Not deleted: {left}." in markdown(found, "Ours")
    assert found.as_json()["left"] == [left]


def test_a_fault_has_the_cases_of_its_rule_and_the_words_of_the_first() -> None:
    cases = [
        Case("odd", 3, "1", [Finding("stuck", "first", "ff"), Finding("all", "two are missing")]),
        Case("odd", 1, "1 MiB", [Finding("stuck", "second")], bytes_sent=100, bytes_again=25),
        Case("gzip", 1, "1", bytes_sent=1000, bytes_again=900),
        Case("gzip", 4, "1 MiB", bytes_sent=1000, bytes_again=900),
    ]
    found = Score("b:1", range(1, 5), cases, [], [])
    [stuck] = [fault for fault in found.faults() if fault.rule == "stuck"]
    assert (stuck.versions, stuck.topics, stuck.words, stuck.shown) == (
        [1, 3],
        ["odd"],
        "first",
        "ff",
    )
    assert (found.right, found.of(1), found.of(3)) == (2, (1, 2), (0, 1))
    assert found.again == 0.25, "of versions below 4, without the limit of one byte"
    assert found.serves_old
    assert not Score("b:1", range(4, 5), cases, [], []).serves_old


def test_markdown_keeps_a_finding_in_its_cell() -> None:
    cases = [Case("odd", 3, "1", [Finding("answer", "a|b\nc")])]
    row = [
        line for line in markdown(Score("b:1", range(4), cases, [], []), "X") if "answer" in line
    ]
    assert len(row) == 1
    assert "| a\\|b\\nc |" in row[0]
