"""A trial sees what Kafka 4 does to an application, and what the gateway does for it."""

import pytest

from tests import kafka_server
from tests.clients.combinations import NPM
from tests.clients.install import missing

from . import node
from .application import AS_IT_COMES, Does
from .target_names import GATEWAY
from .targets import started
from .trials import tried

ABSENT = missing(NPM)


@pytest.mark.others
@pytest.mark.skipif(
    bool(ABSENT) and not kafka_server.REQUIRED, reason=f"not here: {', '.join(ABSENT)}"
)
def test_clients_that_kafka_4_refuses_are_seen_and_the_gateway_takes_them() -> None:
    application = next(
        one
        for one in node.APPLICATIONS
        if one.client.startswith("no-kafka") and one.does is Does.PRODUCES
    )
    with started((kafka_server.NEW, f"{GATEWAY}{kafka_server.NEW}")) as targets:
        direct, behind = tried(application, targets, [AS_IT_COMES], seconds=60)
    assert (direct.target, direct.wrong) == (kafka_server.NEW, "0 of 20")
    assert (behind.target, behind.wrong) == (f"{GATEWAY}{kafka_server.NEW}", "")
