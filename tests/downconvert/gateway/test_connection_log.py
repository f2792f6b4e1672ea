"""Lines of connections' ends, of which there are thousands where a broker fails."""

import logging
from contextlib import ExitStack
from pathlib import Path

import pytest

from downconvert.broker.line_budget import LINES_MAX
from downconvert.broker.wire.schemas import ApiKey, Message

from .serving import Wire, cluster, gateway
from .test_server import wait_for

CLIENTS = 60


def test_the_failure_of_a_broker_makes_few_lines_that_say_how_many_it_hit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "downconvert.gateway")
    with ExitStack() as stack:
        with cluster(tmp_path, "t") as (_, port):
            running = stack.enter_context(gateway(port))
            clients = [stack.enter_context(Wire(running.address)) for _ in range(CLIENTS)]
            for client in clients:
                client.ask(ApiKey.Metadata, 1, Message(topics=[]))
        for _ in range(3):
            for _ in range(CLIENTS // 2):
                with Wire(running.address) as client:
                    client.send(ApiKey.Metadata, 1, Message(topics=[]))
                    assert client.has_ended()
        wait_for(lambda: len(running.places) == 0)
    ends = [r.getMessage() for r in caplog.records if "[broker_failed" in r.getMessage()]
    seconds = caplog.records[-1].created - caplog.records[0].created
    assert len(ends) <= (LINES_MAX + 1) * (seconds + 2)
    told = [int(line.split()[1]) for line in ends if line.startswith("and ")]
    assert sum(told) + len(ends) - len(told) == CLIENTS + 3 * (CLIENTS // 2)
