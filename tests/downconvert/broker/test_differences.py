"""The comparison with Kafka itself: that it notices, and that the page shows what may differ.

Without Kafka; with it: test_api_differential.py."""

from pathlib import Path
from random import Random

import pytest

from downconvert.broker.handlers.apis import APIS
from downconvert.protocol.schemas import ApiKey, Message

from .asking import frame
from .differences.block import Block
from .differences.crowds import crowd
from .differences.identities import KAFKA, OURS, Identities
from .differences.may_differ import MAY_DIFFER
from .differences.operations import WEIGHTS, Operation, operation
from .differences.pipelines import ask_pipelined, pipeline
from .differences.responses import differences, plain
from .differences.servers import Servers
from .differences.values import Known
from .differences.waits import changes, waiting_fetches
from .talking import Talk, serving

PAGE = Path(__file__).parents[3] / "docs" / "differences.md"
HEADING = "## All requests"
VERSIONS = {api: APIS[api].versions for api in WEIGHTS}


def test_the_page_shows_what_may_differ_and_why() -> None:
    section = PAGE.read_text().split(f"{HEADING}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    expected = [f"| {one.asked} | {one.kafka} | {one.here} | {one.reason} |" for one in MAY_DIFFER]
    assert rows[1:] == expected


def test_every_request_can_be_written_and_every_api_is_asked() -> None:
    random, known = Random(1), Known(0)
    asked = set()
    for _ in range(2000):
        made = operation(random, known, VERSIONS)
        body = Identities("b0-").render(made.body, OURS)
        assert frame(made.api, made.version, body)
        asked.add(made.api)
    assert asked == set(WEIGHTS)


def test_requests_of_large_states_pipelines_and_waits_can_be_written() -> None:
    random, identities = Random(1), Identities("b0-")
    large, known = Known(0, is_large=True), Known(0)
    assert {len(name) for name in large.topics()} == {249}
    ends = {"b0-t0": [3], "b0-t1": [1, 2, 3]}
    for _ in range(100):
        fetches = waiting_fetches(random, known, VERSIONS[ApiKey.Fetch], ends, 3)
        assert all(one.body.max_wait_ms for one in fetches)
        made = [operation(random, large, VERSIONS), *crowd(random, 0)[:2], *fetches]
        made += pipeline(random, known, VERSIONS) + changes(random, known, VERSIONS, ends)
        for one in made:
            assert frame(one.api, one.version, identities.render(one.body, OURS))


def test_ids_are_the_same_where_both_servers_mean_the_same() -> None:
    identities = Identities("b0-")
    identities.learn("member", "kafkas", "ours")

    def found(kafkas: str, ours: str) -> list[str]:
        responses = [
            plain(Message(member_id=one, error_code=0), side, identities)
            for side, one in ((KAFKA, kafkas), (OURS, ours))
        ]
        return [place.path for place in differences(*responses)]

    assert found("kafkas", "ours") == []
    assert found("kafkas", "another") == ["member_id"]
    assert found("", "") == []


@pytest.mark.parametrize(
    ("kafkas", "ours", "expected"),
    [
        ([("t", 0, 3), ("u", 0, 0)], [("u", 0, 0), ("t", 0, 3)], []),
        ([("t", 0, 3)], [("t", 0, 0)], ["topics.t.partitions.0.error_code"]),
        ([("t", 0, 3)], [("t", 1, 3)], ["topics.t.partitions.0", "topics.t.partitions.1"]),
        ([("t", 0, 3)], [], ["topics.t"]),
    ],
)
def test_responses_are_compared_topic_by_topic_and_partition_by_partition(
    kafkas: list[tuple[str, int, int]], ours: list[tuple[str, int, int]], expected: list[str]
) -> None:
    responses = [
        plain(
            Message(
                topics=[
                    Message(
                        name=name,
                        partitions=[Message(partition_index=index, error_code=code)],
                    )
                    for name, index, code in one
                ]
            ),
            side,
            Identities("b0-"),
        )
        for side, one in ((KAFKA, kafkas), (OURS, ours))
    ]
    assert [place.path for place in differences(*responses)] == expected
    assert ApiKey.Metadata in WEIGHTS


class Altered(Talk):
    """A connection whose first responses come in another order, or are missing."""

    def __init__(self, talk: Talk, order: tuple[int, ...]) -> None:
        self.socket = talk.socket
        self._talk, self._order = talk, order
        self._held: list[bytes] | None = None

    def receive(self) -> bytes:
        if self._held is None:
            came = [self._talk.receive() for _ in range(max(self._order) + 1)]
            self._held = [came[number] for number in self._order]
        return self._held.pop(0) if self._held else self._talk.receive()


MOVED = "correlation ids"


@pytest.mark.parametrize(("order", "expected"), [((0, 1), []), ((1, 0), [MOVED]), ((1,), [MOVED])])
def test_pipelined_responses_in_another_order_differ(
    tmp_path: Path, order: tuple[int, ...], expected: list[str]
) -> None:
    asked = [
        Operation(ApiKey.Metadata, 9, Message(topics=[]), 0),
        Operation(ApiKey.ListGroups, 0, Message(), 0),
    ]
    with serving(tmp_path) as server:
        servers = Servers((server.address, server.address))
        (pair,) = servers.pairs("", 0, 1)
        pair.talks[OURS] = Altered(pair.talks[OURS], order)
        block = Block(servers, Known(0), Identities("b0-"), [pair])
        found = list(ask_pipelined(block, pair, 0, asked, Random(1)))
        pair.close()
        servers.close()
    assert [one.path for one in found] == expected
