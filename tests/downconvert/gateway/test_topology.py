import pytest

from downconvert.gateway.advertised import Advertised
from downconvert.gateway.topology import (
    BOOTSTRAP,
    RECENT,
    WITH_ADDRESSES,
    Address,
    Ports,
    Topology,
    names_addresses,
)
from downconvert.protocol.errors import BadRequestError, ErrorCode
from downconvert.protocol.fetch_versions import LEADERS_TOLD_SINCE
from downconvert.protocol.schemas import ApiKey, Message, schema

SEED = Address("seed", 9092)


def topology(**pinned: int) -> Topology:
    return Topology((SEED,), Ports(9093, {int(k.strip("b")): v for k, v in pinned.items()}))


def brokers(*ids: int) -> list[Message]:
    return [Message(node_id=one, host=f"kafka-{one}", port=9092) for one in ids]


def test_a_brokers_port_depends_on_its_id_only() -> None:
    assert Ports(9093, {}).of(7) == 9100
    assert Ports(9093, {7: 19_000}).of(7) == 19_000


def test_a_port_above_65535_is_an_error_that_names_the_option() -> None:
    with pytest.raises(BadRequestError, match="--node-port"):
        Ports(9093, {}).of(60_000)


def test_clients_see_the_gateway_where_brokers_are() -> None:
    there = topology(b2=7000)
    response = Message(brokers=brokers(1, 2))
    there.rewrite(ApiKey.Metadata, 1, response, Advertised("gw"))
    assert [(b.host, b.port) for b in response.brokers] == [("gw", 9094), ("gw", 7000)]
    assert there.addresses(1) == (Address("kafka-1", 9092),)


def test_responses_that_name_brokers_are_those_of_kafkas_definitions() -> None:
    """Each of them must be read, because a client must not reach a broker past the gateway."""
    naming = {"brokers", "coordinators", "host", "node_endpoints"}
    found: dict[ApiKey, int] = {}
    for api in ApiKey:
        for field in schema(f"{api.name}Response").fields:
            if field.name in naming:
                found[api] = min(field.versions.start, found.get(api, 99))
    # Records follow a fetch's addresses, so the versions with them are not offered.
    assert found.pop(ApiKey.Fetch) == LEADERS_TOLD_SINCE
    assert found.keys() == WITH_ADDRESSES
    for api, since in found.items():
        assert names_addresses(api, since)
        assert not since or not names_addresses(api, since - 1)
    assert not names_addresses(None, 0)


def test_versions_of_brokers_are_kept_once_for_all_connections() -> None:
    there = topology()
    first = there.set_api_versions(
        Message(api_keys=[Message(api_key=1, min_version=4, max_version=17)])
    )
    again = Message(api_keys=[Message(api_key=1, min_version=4, max_version=17)])
    assert there.set_api_versions(again) is first
    other = Message(api_keys=[Message(api_key=1, min_version=4, max_version=18)])
    assert there.set_api_versions(other) is other is there.api_versions


def test_brokers_come_and_go() -> None:
    there = topology()
    there.set_brokers(brokers(1, 2))
    there.set_brokers(brokers(2, 3))
    assert there.nodes.keys() == {2, 3}
    assert there.addresses(1) == ()


def test_an_empty_list_of_brokers_does_not_replace_the_known_ones() -> None:
    there = topology()
    there.set_brokers(brokers(1))
    there.set_brokers([])
    assert there.nodes.keys() == {1}


def test_new_connections_go_to_any_broker() -> None:
    there = topology()
    there.set_brokers(brokers(1))
    assert there.addresses(BOOTSTRAP) == (SEED, Address("kafka-1", 9092))


def test_addresses_that_failed_last_are_tried_last() -> None:
    there = topology()
    there.set_brokers(brokers(1))
    assert there.set_failed(SEED, has_failed=True)
    assert not there.set_failed(SEED, has_failed=True)
    assert there.addresses(BOOTSTRAP) == (Address("kafka-1", 9092), SEED)
    assert there.set_failed(SEED, has_failed=False)
    assert there.addresses(BOOTSTRAP) == (SEED, Address("kafka-1", 9092))


def test_a_broker_without_a_port_is_left_out() -> None:
    there = topology()
    there.unserved[2] = "port 9095: Address already in use"
    response = Message(brokers=brokers(1, 2))
    there.rewrite(ApiKey.Metadata, 1, response, Advertised("gw"))
    assert [one.node_id for one in response.brokers] == [1]
    assert there.nodes.keys() == {1, 2}  # it is reached when its port is free again
    produced = Message(node_endpoints=brokers(2))
    there.rewrite(ApiKey.Produce, 10, produced, Advertised("gw"))
    assert produced.node_endpoints == []
    found = Message(node_id=2, host="kafka-2", port=9092, coordinators=[], error_code=0)
    there.rewrite(ApiKey.FindCoordinator, 0, found, Advertised("gw"))
    assert (found.error_code, found.host, found.port) == (15, "", -1)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("leader", "replicas", "isr", "code", "found"),
    [
        (1, [1, 2], [2, 1], 0, (1, [1, 2], [2, 1], 0)),
        (1, [1, 9], [1], 0, (1, [1], [1], ErrorCode.REPLICA_NOT_AVAILABLE)),
        (1, [1], [1, 9], 0, (1, [1], [1], ErrorCode.REPLICA_NOT_AVAILABLE)),
        (9, [9, 1], [1], 0, (-1, [1], [1], ErrorCode.LEADER_NOT_AVAILABLE)),
        (3, [3, 1], [1], 0, (-1, [1], [1], ErrorCode.LEADER_NOT_AVAILABLE)),  # it has no port
        (-1, [9, 1], [1], 5, (-1, [1], [1], 5)),
        (-1, [], [], 0, (-1, [], [], 0)),
    ],
)
def test_clients_of_the_first_metadata_find_each_named_broker(
    version: int,
    leader: int,
    replicas: list[int],
    isr: list[int],
    code: int,
    found: tuple[object, ...],
) -> None:
    """The Scala client of 0.8 fails with `key not found` on a replica that is no broker."""
    there = topology()
    there.unserved[3] = "port 9096: Address already in use"
    part = Message(leader_id=leader, replica_nodes=replicas, isr_nodes=isr, error_code=code)
    response = Message(brokers=brokers(1, 2, 3), topics=[Message(partitions=[part])])
    there.rewrite(ApiKey.Metadata, version, response, Advertised("gw"))
    seen = part.leader_id, part.replica_nodes, part.isr_nodes, part.error_code
    assert seen == (found if version == 0 else (leader, replicas, isr, code))


@pytest.mark.parametrize("version", [0, 4])
def test_a_coordinator_is_one_of_the_gateways_addresses(version: int) -> None:
    one = Message(node_id=5, host="kafka-5", port=9092)
    response = Message(coordinators=[one] if version == 4 else [], node_id=-1, host="", port=-1)
    if version == 0:
        response.node_id, response.host, response.port = 5, "kafka-5", 9092
    topology().rewrite(ApiKey.FindCoordinator, version, response, Advertised("gw"))
    found = one if version == 4 else response
    assert (found.host, found.port) == ("gw", 9098)


def test_an_absent_coordinator_stays_absent() -> None:
    response = Message(coordinators=[], node_id=-1, host="", port=-1)
    topology().rewrite(ApiKey.FindCoordinator, 0, response, Advertised("gw"))
    assert (response.host, response.port) == ("", -1)


def test_versions_of_two_brokers_are_not_confused() -> None:
    other = Message(api_keys=[])

    class Racing(Topology):
        """Another thread hears another broker whenever something new is noted."""

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(
                name, other if name == "api_versions" and value is not None else value
            )

    ours = Message(api_keys=[Message(api_key=1, min_version=4, max_version=17)])
    assert Racing((SEED,), Ports(9093, {})).set_api_versions(ours) is ours


def test_versions_of_a_broker_are_recent_for_a_moment() -> None:
    there = topology()
    hello = Message(api_keys=[Message(api_key=1, min_version=4, max_version=17)])
    assert there.recent_api_versions(1, 5.0) is None
    there.set_broker_api_versions(1, hello, 5.0)
    assert there.recent_api_versions(1, 5.0 + RECENT) is hello
    assert there.recent_api_versions(2, 5.0) is None
    assert there.recent_api_versions(1, 5.1 + RECENT) is None


def test_a_broker_that_is_gone_and_comes_back_has_not_failed() -> None:
    there = topology()
    there.set_brokers(brokers(1, 2, 3))
    there.set_failed(Address("kafka-1", 9092), has_failed=True)
    there.set_brokers(brokers(2, 3))
    there.set_failed(Address("kafka-3", 9092), has_failed=True)
    there.set_brokers(brokers(1, 2, 3))
    order = [SEED, *(Address(f"kafka-{one}", 9092) for one in (1, 2, 3))]
    assert list(there.addresses(BOOTSTRAP)) == order
