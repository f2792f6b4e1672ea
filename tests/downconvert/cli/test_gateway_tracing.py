"""A line at WARNING is followed back to its connection and its request by their numbers."""

import json
import re

import pytest

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.hanging import Hanging
from tests.downconvert.gateway.serving import Wire

from .gateways import gateway

NO_TOPICS = Message(topics=[])


@pytest.mark.parametrize("as_json", [False, True])
def test_a_request_that_fails_has_the_numbers_of_its_connection(port: int, as_json: bool) -> None:
    options = ["--verbose", "--request-timeout", "0.5", *(["--json"] if as_json else [])]
    with Hanging(port) as between, gateway(between.port, *options) as running:
        running.ready()
        with Wire(running.address) as other, Wire(running.address) as client:
            other.ask(ApiKey.Metadata, 1, NO_TOPICS)
            for _ in range(2):
                client.ask(ApiKey.Metadata, 1, NO_TOPICS)
            between.hangs = True
            client.send(ApiKey.Metadata, 0, NO_TOPICS)
            assert client.has_ended()
        _, log = running.end()
    lines = log.splitlines()
    (warned,) = [one for one in lines if "[broker_failed after 2 requests" in one]
    if not as_json:
        found = re.search(r", connection (\d+-\d+)\]", warned)
        assert found is not None
        followed = [one for one in lines if f"connection {found[1]}, request " in one]
        numbers = [int(one.rpartition("request ")[2].removesuffix("]")) for one in followed]
        assert numbers == [1, 2, 3]
        return
    read = list(map(json.loads, lines))
    (end,) = [one for one in read if one["message"] in warned]
    assert end["level"] == "warning"
    assert end["number"] == 3
    same = [one for one in read if one.get("connection") == end["connection"] and one is not end]
    assert [(one["request"], one["number"]) for one in same] == [
        ("Metadata v1", 1),
        ("Metadata v1", 2),
        ("Metadata v0", 3),
    ]


def test_connections_of_several_processes_have_different_numbers(port: int) -> None:
    with gateway(port, "--json", "--workers", 2) as running:
        running.ready()
        for _ in range(10):
            running.ask(ApiKey.Metadata, 1, NO_TOPICS)
        _, log = running.end()
    ends = [json.loads(line) for line in log.splitlines() if "requests in" in line]
    assert len(ends) == len({one["connection"] for one in ends}) == 10
