"""DescribeCluster: this broker, where the client found it."""

from pathlib import Path

import pytest

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, someone
from tests.downconvert.broker.writable import writable_broker


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_broker(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, node_id=3) as broker:
        body, client = Message(endpoint_type=1), someone(host="here", port=1234)
        response = ask(broker, ApiKey.DescribeCluster, version, body, client=client)
        (node,) = response.brokers
        assert (node.broker_id, node.host, node.port) == (3, "here", 1234)
        assert (response.error_code, response.controller_id) == (0, 3)
        assert response.cluster_id == broker.config.cluster_id


def test_a_request_for_controllers_is_refused(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        response = ask(broker, ApiKey.DescribeCluster, 1, Message(endpoint_type=2))
        assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_unknown_kinds_of_endpoints_are_refused(tmp_path: Path) -> None:
    with writable_broker(tmp_path) as broker:
        for kind in (0, 3, -1):
            response = ask(broker, ApiKey.DescribeCluster, 1, Message(endpoint_type=kind))
            assert response.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
