"""The versions of requests that each release of Kafka 4 refuses.

The oldest versions are those of the message definitions in kafka-clients of each release from 4.0.0
to 4.4.0 (common/message/*Request.json, `validVersions`; KIP-896). Brokers close the connection at
an older one. Kafka's ApiVersions response is not the source: it includes Produce 0-2, which are
refused all the same (KAFKA-18659)."""

import re
from collections.abc import Iterator
from typing import Final

# By API key, from 0 on: the names of Kafka's message definitions.
_NAMES: Final = re.findall(
    r"\w+",
    """
Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown
OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups
ListGroups SaslHandshake ApiVersions CreateTopics DeleteTopics DeleteRecords InitProducerId
OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit
DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs DescribeLogDirs
SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken
DescribeDelegationToken DeleteGroups ElectLeaders IncrementalAlterConfigs
AlterPartitionReassignments ListPartitionReassignments OffsetDelete DescribeClientQuotas
AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch
EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot DescribeCluster
DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker DescribeTransactions
ListTransactions AllocateProducerIds ConsumerGroupHeartbeat ConsumerGroupDescribe
ControllerRegistration GetTelemetrySubscriptions PushTelemetry AssignReplicasToDirs
ListConfigResources DescribeTopicPartitions ShareGroupHeartbeat ShareGroupDescribe ShareFetch
ShareAcknowledge AddRaftVoter RemoveRaftVoter UpdateRaftVoter InitializeShareGroupState
ReadShareGroupState WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary
StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets AlterShareGroupOffsets
DeleteShareGroupOffsets StreamsGroupTopologyDescriptionUpdate UnregisterController
""",
)
NAMES: Final = dict(enumerate(_NAMES))
SASL_HANDSHAKE, API_VERSIONS = 17, 18
# No API has had more versions (Fetch and Produce are at 18 and 13): a higher one is no request.
VERSION_MAX: Final = 31

# Requests between brokers and controllers, whose versions concern only the cluster.
BETWEEN_BROKERS: Final = frozenset(
    key
    for key, name in NAMES.items()
    if name
    in re.findall(
        r"\w+",
        """LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown WriteTxnMarkers Vote
    BeginQuorumEpoch EndQuorumEpoch AlterPartition Envelope FetchSnapshot BrokerRegistration
    BrokerHeartbeat AllocateProducerIds ControllerRegistration AssignReplicasToDirs
    UpdateRaftVoter UnregisterController""",
    )
)

# By API, the oldest version that all releases of 4.x accept.
_SINCE_4_0: Final = {
    "Produce": 3,
    "Fetch": 4,
    "ListOffsets": 1,
    "OffsetCommit": 2,
    "OffsetFetch": 1,
    "CreateTopics": 2,
    "DeleteTopics": 1,
    "OffsetForLeaderEpoch": 2,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "DescribeConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
}
# KAFKA-19444: versions 0 and 1 came back with 4.0.1.
_ONLY_4_0_0: Final = {"JoinGroup": 2}
# Version 0 was early access (KIP-932).
_SINCE_4_1: Final = dict.fromkeys(
    ("ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge"), 1
)
RELEASES: Final = (
    *("4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2"),
    *("4.2.0", "4.2.1", "4.3.0", "4.3.1", "4.4.0"),
)
NEWEST: Final = RELEASES[-1]

_KEYS: Final = {name: key for key, name in NAMES.items()}
# Names in metrics and logs: FETCH, LIST_OFFSETS, and names of some releases only.
_KEYS_BY_ANY_NAME: Final = {name.lower(): key for name, key in _KEYS.items()} | {
    "electpreferredleaders": _KEYS["ElectLeaders"],
    "groupcoordinator": _KEYS["FindCoordinator"],
    "listclientmetricsresources": _KEYS["ListConfigResources"],
    "updatemetadata": _KEYS["UpdateMetadata"],
    "alterisr": _KEYS["AlterPartition"],
}


def key_of(name: str) -> int | None:
    """The API's key by its name: `ListOffsets` or `LIST_OFFSETS`. None if the name is unknown."""
    return _KEYS_BY_ANY_NAME.get(name.replace("_", "").lower())


def oldest(release: str) -> dict[int, int]:
    """The oldest version that a release accepts, by API key, if it is not 0."""
    table = dict(_SINCE_4_0)
    if release == "4.0.0":
        table |= _ONLY_4_0_0
    if not release.startswith("4.0."):
        table |= _SINCE_4_1
    return {_KEYS[name]: version for name, version in table.items()}


def parse_release(text: str) -> str:
    """A release of RELEASES; `4.1` is its first. ValueError: unknown."""
    full = text if text.count(".") != 1 else f"{text}.0"
    if full not in RELEASES:
        raise ValueError(f"{text!r} is not known: one of {', '.join(RELEASES)}")
    return full


def alike() -> Iterator[tuple[str, ...]]:
    """The releases in groups that refuse the same versions, oldest first."""
    groups: list[list[str]] = []
    for release in RELEASES:
        if groups and oldest(groups[-1][0]) == oldest(release):
            groups[-1].append(release)
        else:
            groups.append([release])
    yield from map(tuple, groups)


def version_of(text: str) -> tuple[int, ...]:
    """The numbers at the beginning of a text: `1.8.2-rc1` is (1, 8, 2)."""
    found = re.match(r"\d{1,6}(?:\.\d{1,6}){0,4}", text)
    return tuple(map(int, found[0].split("."))) if found else ()
