from collections.abc import Mapping

import pytest

from downconvert.access.names import RULES
from downconvert.gateway.session.versions import PASSED, Versions
from downconvert.protocol.decoder import decode
from downconvert.protocol.fetch_versions import FLEXIBLE_SINCE
from downconvert.protocol.schemas import ApiKey, Message

KAFKA_4 = {0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 18: (0, 5), 17: (0, 1)}
KAFKA_4 |= {36: (0, 2), 55: (0, 2), 68: (0, 1), 78: (1, 2), 1: (4, 18), 75: (0, 0)}
SHARE_GROUPS = (76, 77, 78, 79, 90, 91, 92)
BROKERS_AND_CONTROLLERS = (4, 5, 6, 7, 27, 52, 53, 54, 56, 58, 59, 62, 63, 64, 67, 70, 73)
BROKERS_AND_CONTROLLERS += (*range(80, 88), 93)
# The newest versions in Kafka 4.1's definitions. DescribeQuorum's version 2 names the controllers.
NEWEST_PASSED = {29: 3, 30: 3, 31: 3, 34: 2, 38: 3, 39: 2, 40: 2, 41: 3, 43: 2, 45: 1, 46: 0, 47: 0}
NEWEST_PASSED |= {48: 1, 49: 1, 50: 0, 51: 0, 55: 1, 57: 2, 68: 1, 69: 1, 71: 0, 72: 0, 74: 1}
NEWEST_PASSED |= {88: 0, 89: 0}


def versions(
    more: Mapping[int, tuple[int, int]] | None = None,
    *,
    is_read_only: bool = False,
    has_lists: bool = False,
    hides_sasl: bool = False,
) -> Versions:
    keys = [
        Message(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in (KAFKA_4 if more is None else {18: (0, 5), **more}).items()
    ]
    return Versions.of(
        Message(api_keys=keys),
        is_read_only=is_read_only,
        has_lists=has_lists,
        hides_sasl=hides_sasl,
    )


def test_connections_to_which_the_same_is_offered_share_it() -> None:
    assert versions() is versions()
    assert versions() is not versions(is_read_only=True)
    assert versions({1: (4, 17)}) is not versions({1: (4, 18)})


def test_apis_are_offered_in_the_order_of_their_numbers() -> None:
    offered = list(versions({18: (0, 5), 3: (0, 13), 1: (4, 17), 2: (1, 9)}).offered)
    assert offered == sorted(offered)
    assert {1, 2, 3, 18} <= set(offered)


def test_versions_that_the_cluster_dropped_are_offered() -> None:
    offered = versions().offered
    assert offered[ApiKey.Fetch].start == offered[ApiKey.ListOffsets].start == 0
    assert offered[ApiKey.OffsetCommit] == range(11)


def test_apis_that_are_read_by_their_header_are_offered_up_to_the_newest_known_header() -> None:
    assert versions().offered[68] == range(2)
    assert versions({68: (0, 7)}).offered[68] == range(2)


def test_the_quorum_is_described_without_the_controllers_addresses() -> None:
    assert versions().offered[55] == range(2)


@pytest.mark.parametrize("key", [*SHARE_GROUPS, *BROKERS_AND_CONTROLLERS, 94, 1000, 32767])
def test_apis_that_are_not_known_to_be_for_clients_are_not_offered(key: int) -> None:
    assert versions({key: (0, 1)}).offered.keys() == {ApiKey.ApiVersions}


@pytest.mark.parametrize("key", [*PASSED, *ApiKey])
def test_versions_that_are_understood_are_offered(key: int) -> None:
    assert key in versions({key: (0, 1)}).offered


@pytest.mark.parametrize("key", PASSED)
def test_requests_forwarded_unread_are_offered_up_to_the_newest_reviewed_version(
    key: int,
) -> None:
    for newest in (NEWEST_PASSED[key], NEWEST_PASSED[key] + 1, 99):
        assert versions({key: (0, newest)}).offered[key] == range(NEWEST_PASSED[key] + 1)


def test_fetches_whose_responses_name_brokers_are_not_offered() -> None:
    assert versions().offered[ApiKey.Fetch].stop - 1 == 15


def test_apis_whose_responses_name_brokers_in_unknown_fields_are_not_offered() -> None:
    assert 78 not in versions().offered


def test_a_cluster_that_only_claims_to_take_old_produces_gets_none() -> None:
    assert not versions().passes(ApiKey.Produce, 2)
    assert versions().passes(ApiKey.Produce, 3)
    assert not versions().passes(ApiKey.Fetch, 3)
    assert versions().passes(ApiKey.Fetch, 4)


def test_a_read_only_client_is_offered_reading_only() -> None:
    offered = versions(is_read_only=True).offered
    assert ApiKey.Produce not in offered
    assert {ApiKey.Fetch, ApiKey.OffsetCommit, 55} <= offered.keys()


def test_a_read_only_client_joins_no_group_by_requests_with_unknown_fields() -> None:
    assert 68 not in versions(is_read_only=True).offered


def test_apis_between_brokers_are_not_offered() -> None:
    assert versions({24: (0, 5)}).offered[ApiKey.AddPartitionsToTxn] == range(4)


def test_with_lists_only_apis_and_versions_with_checked_names_are_offered() -> None:
    offered = versions(has_lists=True).offered
    assert offered.keys() <= RULES.keys()
    assert offered[ApiKey.Fetch].stop - 1 == 12
    assert offered[ApiKey.Produce].stop - 1 == 12
    assert offered[ApiKey.OffsetCommit].stop - 1 == 9


def test_where_the_gateway_authenticates_itself_clients_are_not_asked_to() -> None:
    assert ApiKey.SaslHandshake in versions().offered
    assert ApiKey.SaslHandshake not in versions(hides_sasl=True).offered


def test_old_requests_are_translated_to_the_oldest_that_the_cluster_takes() -> None:
    assert versions().nearest(ApiKey.ListOffsets) == 1
    assert versions().nearest(ApiKey.Produce) == 3


def response(cluster: Message, software: str, version: int, offers: Versions) -> Message:
    return decode(
        "ApiVersionsResponse", version, memoryview(offers.body(cluster, software, version))
    )


def test_the_response_keeps_the_other_fields_of_the_clusters() -> None:
    cluster = Message(api_keys=[], finalized_features_epoch=7, throttle_time_ms=3)
    found = response(cluster, "apache-kafka-java 3.9.1", 3, versions())
    assert (found.finalized_features_epoch, found.throttle_time_ms) == (7, 3)
    assert {one.api_key for one in found.api_keys} == versions().offered.keys()


def test_librdkafka_is_offered_no_fetch_in_which_it_misreads_old_messages() -> None:
    """A cluster may still have segments of v0 and v1."""
    cluster, offers = Message(api_keys=[]), versions()
    for software, newest in (("java 3.9.1", 15), ("librdkafka 2.5.0", FLEXIBLE_SINCE - 1)):
        found = response(cluster, software, 0, offers)
        (fetch,) = (one for one in found.api_keys if one.api_key == ApiKey.Fetch)
        assert fetch.max_version == newest


def test_a_response_is_encoded_once_for_each_version_and_again_when_the_cluster_changes() -> None:
    offers = versions()
    before, after = Message(throttle_time_ms=3), Message(throttle_time_ms=4)
    assert offers.body(before, "java", 1) is offers.body(before, "python", 1)
    for version in (1, 2, 3):
        for cluster in (before, after, before):
            found = response(cluster, "java", version, offers)
            assert found.throttle_time_ms == cluster.throttle_time_ms
