"""The audit names the resources of a request that is passed on, and no secret in it."""

import pytest

from downconvert.access.audited import CHANGES, NAMED_MAX
from downconvert.access.audited_requests import NAMED, requested
from downconvert.protocol.encoder import encode
from downconvert.protocol.requests import parse_start
from downconvert.protocol.schemas import ApiKey, Message, schema

KEYS = {name: key for key, name in CHANGES.items()}
SECRET = b"salted-password"
REQUESTS = {
    "AlterReplicaLogDirs": (
        Message(dirs=[Message(path="/d", topics=[Message(name="t", partitions=[0])])]),
        [{"kind": "topic", "name": "t"}],
    ),
    "ElectLeaders": (
        Message(topic_partitions=[Message(topic="t", partitions=[0])], timeout_ms=1),
        [{"kind": "topic", "name": "t"}],
    ),
    "AlterPartitionReassignments": (
        Message(topics=[Message(name="t", partitions=[Message(partition_index=0, replicas=[1])])]),
        [{"kind": "topic", "name": "t"}],
    ),
    "AlterClientQuotas": (
        Message(
            entries=[
                Message(
                    entity=[
                        Message(entity_type="user", entity_name="ann"),
                        Message(entity_type="client-id", entity_name=None),
                    ],
                    ops=[Message(key="producer_byte_rate", value=5.0, remove=False)],
                )
            ],
            validate_only=False,
        ),
        [
            {
                "kind": "client_quota",
                "name": "user=ann,client-id=(default)",
                "settings": ["producer_byte_rate"],
            }
        ],
    ),
    "AlterUserScramCredentials": (
        Message(
            deletions=[Message(name="old", mechanism=1)],
            upsertions=[
                Message(name="new", mechanism=1, iterations=4096, salt=b"x", salted_password=SECRET)
            ],
        ),
        [{"kind": "user", "name": "old"}, {"kind": "user", "name": "new"}],
    ),
    "UpdateFeatures": (
        Message(feature_updates=[Message(feature="metadata.version", max_version_level=7)]),
        [{"kind": "feature", "name": "metadata.version"}],
    ),
}
VERSIONS = [
    (name, version)
    for name in REQUESTS
    for version in range(schema(f"{name}Request").newest + 1)
    if (name, version) != ("AlterReplicaLogDirs", 0)
]


def frame_of(name: str, version: int, body: Message) -> memoryview:
    """The whole request, without its length."""
    known = schema(f"{name}Request")
    header = Message(
        request_api_key=KEYS[name],
        request_api_version=version,
        correlation_id=1,
        client_id="client",
    )
    start = encode("RequestHeader", 2 if version in known.flexible else 1, header)
    return memoryview(bytes(start) + bytes(encode(known.name, version, body)))


def size_of(frame: memoryview) -> int:
    size: int = parse_start(frame)[-1]
    return size


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_resources_are_named_in_all_versions(name: str, version: int) -> None:
    body, named = REQUESTS[name]
    frame = frame_of(name, version, body)
    found = requested(name, version, frame, size_of(frame))
    assert found == named
    assert SECRET.decode() not in str(found)


def test_every_change_that_is_passed_on_is_named_or_about_tokens() -> None:
    unread = {name for key, name in CHANGES.items() if key not in set(ApiKey)}
    assert {name for name in unread - NAMED.keys() if "DelegationToken" not in name} == set()
    assert REQUESTS.keys() == NAMED.keys()


def test_an_election_of_all_leaders_says_so() -> None:
    frame = frame_of("ElectLeaders", 2, Message(topic_partitions=None, timeout_ms=1))
    named = requested("ElectLeaders", 2, frame, size_of(frame))
    assert named == [{"kind": "topic", "name": "(all)"}]


@pytest.mark.parametrize("cut", range(1, 30, 7))
def test_a_malformed_request_names_nothing(cut: int) -> None:
    frame = frame_of("UpdateFeatures", 1, REQUESTS["UpdateFeatures"][0])
    assert requested("UpdateFeatures", 1, frame[:-cut], size_of(frame)) == []


def test_an_unknown_version_or_request_names_nothing() -> None:
    frame = frame_of("UpdateFeatures", 1, REQUESTS["UpdateFeatures"][0])
    newest = schema("UpdateFeaturesRequest").newest
    assert requested("UpdateFeatures", newest + 1, frame, size_of(frame)) == []
    assert requested("CreateDelegationToken", 1, frame, size_of(frame)) == []


def test_the_number_of_resources_is_bounded() -> None:
    topics = [Message(name=f"t-{n}", partitions=[]) for n in range(NAMED_MAX + 1)]
    frame = frame_of("AlterPartitionReassignments", 0, Message(topics=topics, timeout_ms=1))
    named = requested("AlterPartitionReassignments", 0, frame, size_of(frame))
    assert len(named) == NAMED_MAX
