"""What a cluster serves, and what is offered to clients in its place.

Nothing here is a table of what Kafka 4 dropped: whatever the cluster's own answer lacks at the low
end of an API whose fields are known is translated, and offered."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from downconvert.broker.wire.schemas import ApiKey, Message, schema

from .headers import known

# From these versions on a response names brokers by their own addresses in the midst of records
# that stream through here [KIP-951], or topics by ids that no list of allowed ones can name.
FETCH_WITH_ENDPOINTS: Final = 16
FIRST_WITH_IDS: Final = {
    ApiKey.Produce: 13,
    ApiKey.Fetch: 13,
    ApiKey.OffsetCommit: 10,
    ApiKey.OffsetFetch: 10,
}

# APIs of a cluster that a client must not be told of. Brokers among themselves use them, or their
# responses hold addresses in fields that are not known here.
HIDDEN: Final = frozenset(
    {
        4,  # LeaderAndIsr
        5,  # StopReplica
        6,  # UpdateMetadata
        7,  # ControlledShutdown
        27,  # WriteTxnMarkers
        *range(52, 57),  # Vote, BeginQuorumEpoch, EndQuorumEpoch, DescribeQuorum, AlterPartition
        58,  # Envelope
        59,  # FetchSnapshot
        *range(62, 65),  # BrokerRegistration, BrokerHeartbeat, UnregisterBroker
        67,  # AllocateProducerIds
        70,  # ControllerRegistration
        73,  # AssignReplicasToDirs
        78,  # ShareFetch
        79,  # ShareAcknowledge
        *range(80, 84),  # of the controllers' quorum
    }
)

AUTHENTICATION: Final = (ApiKey.SaslHandshake, ApiKey.SaslAuthenticate)

# What a client may ask that is to read and to change nothing but its own group's position.
READING: Final = frozenset(
    {
        ApiKey.Fetch,
        ApiKey.ListOffsets,
        ApiKey.Metadata,
        ApiKey.OffsetCommit,
        ApiKey.OffsetFetch,
        ApiKey.FindCoordinator,
        ApiKey.JoinGroup,
        ApiKey.Heartbeat,
        ApiKey.LeaveGroup,
        ApiKey.SyncGroup,
        ApiKey.DescribeGroups,
        ApiKey.ListGroups,
        ApiKey.SaslHandshake,
        ApiKey.ApiVersions,
        ApiKey.OffsetForLeaderEpoch,
        ApiKey.DescribeConfigs,
        ApiKey.SaslAuthenticate,
        ApiKey.DescribeCluster,
        68,  # ConsumerGroupHeartbeat
        69,  # ConsumerGroupDescribe
        71,  # GetTelemetrySubscriptions
        72,  # PushTelemetry
    }
)


@dataclass(frozen=True)
class Versions:
    """What can be asked through one listener, computed from what the cluster said."""

    cluster: Mapping[int, range]
    is_read_only: bool = False
    names_topics: bool = False  # only topics of a list: what names them by ids is not offered
    hides_sasl: bool = False  # the gateway authenticates itself, clients need not

    @classmethod
    def of(
        cls, answer: Message, *, is_read_only: bool, names_topics: bool, hides_sasl: bool
    ) -> "Versions":
        """From a cluster's ApiVersions response."""
        served = {
            one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys
        }
        return cls(served, is_read_only, names_topics, hides_sasl)

    @cached_property
    def offered(self) -> dict[int, range]:
        """What clients are told."""
        return {
            key: offered
            for key, served in sorted(self.cluster.items())
            if key not in HIDDEN and (key in READING or not self.is_read_only)
            if not (self.hides_sasl and key in AUTHENTICATION)
            if (offered := range(self._lowest(key, served), self._highest(key, served) + 1))
        }

    def passes(self, key: int, version: int) -> bool:
        """Whether the cluster itself understands a request that is offered."""
        return version in self.cluster.get(key, ()) and version >= self._floor(key)

    def nearest(self, key: int) -> int:
        """The version that older requests are translated to: the oldest that the cluster has, for
        it has the fewest fields that nobody filled in."""
        return max(self.cluster[key].start, self._floor(key))

    def _floor(self, key: int) -> int:
        # Produce v0-v2 are advertised by Kafka 4 for the sake of a librdkafka that would not
        # connect otherwise, and refused [KAFKA-18659]. Fetch below 4 would have an older cluster
        # convert.
        return (
            {ApiKey.Produce: 3, ApiKey.Fetch: 4}.get(ApiKey(key), 0)
            if known(key) is not None
            else 0
        )

    def _lowest(self, key: int, served: range) -> int:
        return 0 if known(key) is not None else served.start

    def _highest(self, key: int, served: range) -> int:
        highest = served.stop - 1
        if known(key) is not None:
            api = ApiKey(key)
            highest = min(highest, schema(f"{api.name}Request").newest)
            if self.names_topics:
                highest = min(highest, FIRST_WITH_IDS.get(api, highest + 1) - 1)
        if key == ApiKey.Fetch:
            highest = min(highest, FETCH_WITH_ENDPOINTS - 1)
        return highest

    def answer(self, cluster: Message) -> Message:
        """The ApiVersions response for a client: the cluster's, with what is offered here."""
        keys = [
            Message(api_key=key, min_version=versions.start, max_version=versions.stop - 1)
            for key, versions in self.offered.items()
        ]
        return Message(**{**cluster.__dict__, "api_keys": keys})
