"""A refused request has the response that Kafka gives to it, in each version.

Not here: requests of which a part is refused (test_permissions.py)."""

from typing import Any

import pytest

from downconvert.access.permissions import Permission
from downconvert.access.rights import Access
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message

LISTS = Access(topics=("ok-*",), groups=("ok-*",), transactional_ids=("ok-*",))
UNKNOWN = bytes([7]) * 16
INVALID, GROUP_DENIED, CLUSTER_DENIED, ID_DENIED = 42, 30, 31, 53


def refused(api: ApiKey, version: int, **body: Any) -> Message:
    refusal = Permission(LISTS, api, version, Message(**body)).refusal
    assert refusal is not None
    assert encode(f"{api.name}Response", version, refusal)  # no field has an impossible value
    return refusal


@pytest.mark.parametrize(("version", "expected"), [(6, ""), (7, None), (9, None)])
def test_a_refused_join_has_no_protocol(version: int, expected: str | None) -> None:
    response = refused(ApiKey.JoinGroup, version, group_id="no")
    assert (response.error_code, getattr(response, "protocol_name", "")) == (GROUP_DENIED, expected)


def test_a_refused_producer_has_no_epoch() -> None:
    response = refused(ApiKey.InitProducerId, 4, transactional_id="no")
    assert (response.error_code, response.producer_epoch) == (ID_DENIED, -1)


@pytest.mark.parametrize("version", [1, 2, 7])
def test_a_refused_group_has_an_error_for_each_partition_or_one_for_all(version: int) -> None:
    topics = [Message(name="ok-1", partition_indexes=[0, 3])]
    response = refused(ApiKey.OffsetFetch, version, group_id="no", topics=topics)
    codes = [one.error_code for topic in response.topics for one in topic.partitions]
    if version == 1:
        assert codes == [GROUP_DENIED, GROUP_DENIED]
    else:
        assert (codes, response.error_code) == ([], GROUP_DENIED)


def test_of_several_groups_a_refused_one_has_no_topics() -> None:
    topics = [Message(name="ok-1", partition_indexes=[0])]
    response = refused(ApiKey.OffsetFetch, 8, groups=[Message(group_id="no", topics=topics)])
    (group,) = response.groups
    assert (group.group_id, group.error_code, group.topics) == ("no", GROUP_DENIED, [])


@pytest.mark.parametrize(
    ("version", "kind", "expected"),
    [
        *((3, 0, GROUP_DENIED), (3, 1, ID_DENIED), (5, 1, ID_DENIED)),
        *((3, 2, INVALID), (5, 2, INVALID), (5, 9, INVALID), (6, 2, CLUSTER_DENIED)),
    ],
)
def test_a_coordinator_of_a_kind_that_a_version_lacks_is_an_invalid_request(
    version: int, kind: int, expected: int
) -> None:
    keys = {"key": "no"} if version < 4 else {"coordinator_keys": ["no"]}
    response = refused(ApiKey.FindCoordinator, version, key_type=kind, **keys)
    (found,) = [response] if version < 4 else response.coordinators
    assert (found.error_code, found.node_id) == (expected, -1)


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_ids_is_answered_with_errors_before_there_are_ids(version: int) -> None:
    """Kafka answers each topic of the request with INVALID_REQUEST, without regard to rights."""
    topics = [Message(name=None, topic_id=UNKNOWN), Message(name="no", topic_id=bytes(16))]
    response = refused(ApiKey.Metadata, version, topics=topics)
    assert (response.brokers, response.controller_id) == ([], -1)
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("", INVALID),
        ("no", INVALID),
    ]


def test_metadata_by_ids_hides_names_from_the_version_that_has_ids_on() -> None:
    topics = [Message(name=None, topic_id=UNKNOWN), Message(name="no", topic_id=bytes(16))]
    permission = Permission(LISTS, ApiKey.Metadata, 12, Message(topics=topics))
    response = Message(topics=[Message(name="no-2", topic_id=UNKNOWN)])
    permission.complete(response)
    assert [(one.name, one.error_code) for one in response.topics] == [(None, 100), ("no", 29)]


@pytest.mark.parametrize(
    ("there", "expected"),
    [("ok-1", ("ok-1", 29)), ("no-1", (None, 100)), (None, (None, 100))],
)
def test_a_deletion_by_id_names_a_topic_that_the_client_may_see(
    there: str | None, expected: tuple[str | None, int]
) -> None:
    sees_only = Access(topics=("ok-*",), is_read_only=True)
    body = Message(topics=[Message(name=None, topic_id=UNKNOWN)])
    found = [] if there is None else [Message(name=there, topic_id=UNKNOWN)]
    refusal = Permission(sees_only, ApiKey.DeleteTopics, 6, body, found).refusal
    assert refusal is not None
    assert [(one.name, one.error_code) for one in refusal.responses] == [expected]
