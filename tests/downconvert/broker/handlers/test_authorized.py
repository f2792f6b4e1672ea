"""The operations that responses list are those that this client may do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from downconvert.access import operations as bits
from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, someone
from tests.downconvert.broker.writable import writable_broker

READER = Access(is_read_only=True)
CLUSTER = bits.SHOWN[bits.Kind.CLUSTER]
TOPIC, GROUP = bits.SHOWN[bits.Kind.TOPIC], bits.SHOWN[bits.Kind.GROUP]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t") as broker:
        yield broker


def asked(broker: Broker, access: Access | None, *, wants: bool = True) -> tuple[int, int, int]:
    """The operations on the cluster, a topic and a group."""
    client: Any = someone(access=access)
    body = Message(include_cluster_authorized_operations=wants)
    cluster = ask(broker, ApiKey.DescribeCluster, 0, body, client=client)
    body = Message(
        topics=[Message(name="t")],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=wants,
        include_cluster_authorized_operations=wants,
    )
    metadata = ask(broker, ApiKey.Metadata, 8, body, client=client)
    assert metadata.cluster_authorized_operations == cluster.cluster_authorized_operations
    body = Message(groups=["g"], include_authorized_operations=wants)
    groups = ask(broker, ApiKey.DescribeGroups, 3, body, client=client)
    return (
        cluster.cluster_authorized_operations,
        metadata.topics[0].topic_authorized_operations,
        groups.groups[0].authorized_operations,
    )


def test_a_client_without_a_rule_may_do_everything(broker: Broker) -> None:
    assert asked(broker, None) == (CLUSTER, TOPIC, GROUP)


def test_a_client_that_only_reads_may_read(broker: Broker) -> None:
    cluster, topic, group = asked(broker, READER)
    assert cluster == bits.LOOKING
    assert topic == bits.READING
    assert group == bits.DESCRIBE  # it commits in groups of its own only
    assert not (cluster | topic | group) & (bits.WRITE | bits.CREATE | bits.DELETE | bits.ALTER)


def test_operations_are_listed_only_on_request(broker: Broker) -> None:
    assert asked(broker, None, wants=False) == (bits.NOT_ASKED,) * 3
