"""Computes the versions that the gateway offers from those that a cluster serves.

There is no table of the versions that Kafka 4 dropped. If the fields of an API are known, the
gateway translates the low versions that the cluster's ApiVersions response lacks. It offers high
versions only if this project knows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Final

from downconvert.access.guard import is_for_readers, newest_offered
from downconvert.access.rights import Access
from downconvert.protocol.encoder import encode
from downconvert.protocol.fetch_versions import (
    AS_ON_DISK_SINCE,
    LEADERS_TOLD_SINCE,
    MISREADS_OLD_MESSAGES,
    served_to,
)
from downconvert.protocol.responses import NAMES
from downconvert.protocol.schemas import ApiKey, Message, schema

from .headers import known

# APIs that are forwarded without parsing their fields. The specification of each was reviewed up to
# the version given here. A later version may contain brokers' addresses, or mean something else.
# APIs that are neither here nor in ApiKey are not offered: requests between brokers and
# controllers, share groups, and APIs that a later Kafka adds.
PASSED: Final = {
    29: 3,  # DescribeAcls
    30: 3,  # CreateAcls
    31: 3,  # DeleteAcls
    34: 2,  # AlterReplicaLogDirs
    38: 3,  # CreateDelegationToken
    39: 2,  # RenewDelegationToken
    40: 2,  # ExpireDelegationToken
    41: 3,  # DescribeDelegationToken
    43: 2,  # ElectLeaders
    45: 1,  # AlterPartitionReassignments
    46: 0,  # ListPartitionReassignments
    47: 0,  # OffsetDelete
    48: 1,  # DescribeClientQuotas
    49: 1,  # AlterClientQuotas
    50: 0,  # DescribeUserScramCredentials
    51: 0,  # AlterUserScramCredentials
    55: 1,  # DescribeQuorum; from version 2 on it returns the controllers' addresses
    57: 2,  # UpdateFeatures
    68: 1,  # ConsumerGroupHeartbeat
    69: 1,  # ConsumerGroupDescribe
    71: 0,  # GetTelemetrySubscriptions
    72: 0,  # PushTelemetry
    74: 1,  # ListConfigResources
    88: 0,  # StreamsGroupHeartbeat
    89: 0,  # StreamsGroupDescribe
}

# The newest version for clients, if later ones are for requests between brokers.
OF_CLIENTS: Final[dict[int, int]] = {ApiKey.AddPartitionsToTxn: 3}

SERVED_VERSIONS: Final = attrgetter("api_key", "min_version", "max_version")

AUTHENTICATION: Final = (ApiKey.SaslHandshake, ApiKey.SaslAuthenticate)
# The versions of a gateway that clients log in to.
LOGIN: Final[dict[int, range]] = {ApiKey.SaslHandshake: range(2), ApiKey.SaslAuthenticate: range(3)}


@dataclass(frozen=True)
class Versions:
    """The versions of one listener, computed from the cluster's ApiVersions response."""

    cluster: Mapping[int, range]
    is_read_only: bool = False
    has_lists: bool = False  # the listener has lists of names, or denies unlisted ones
    hides_sasl: bool = False  # the gateway authenticates itself; clients need not
    logs_in: bool = False  # clients authenticate with the gateway

    @classmethod
    def of(
        cls,
        response: Message,
        *,
        is_read_only: bool,
        has_lists: bool,
        hides_sasl: bool,
        logs_in: bool = False,
    ) -> "Versions":
        """The versions for a cluster's ApiVersions response. Equal arguments give the same object,
        because each of thousands of connections holds one."""
        served = tuple(map(SERVED_VERSIONS, response.api_keys))
        return _versions(served, is_read_only, has_lists, hides_sasl, logs_in)

    @cached_property
    def offered(self) -> dict[int, range]:
        """The versions that clients see in ApiVersions, by API key."""
        own = LOGIN if self.logs_in else {}
        return own | {
            key: offered
            for key, served in sorted(self.cluster.items())
            if known(key) is not None or key in PASSED
            if is_for_readers(key) or not self.is_read_only
            if not (self.hides_sasl and key in AUTHENTICATION)
            if (offered := range(self._lowest(key, served), self._highest(key, served) + 1))
        }

    def passes(self, key: int, version: int) -> bool:
        """Whether a request can be forwarded to the cluster in its own version."""
        return self.serves(key, version) and version >= self._floor(key)

    def serves(self, key: int, version: int) -> bool:
        """Whether the cluster serves this version."""
        return version in self.cluster.get(key, ())

    def nearest(self, key: int) -> int:
        """The version that older requests are translated to: the cluster's oldest. It has the
        fewest fields that the client's version lacks."""
        return max(self.cluster[key].start, self._floor(key))

    def _floor(self, key: int) -> int:
        # Kafka 4 advertises Produce v0-v2 and refuses them: some versions of librdkafka would not
        # connect otherwise [KAFKA-18659]. Fetch below 4 would make an older cluster convert.
        return (
            {ApiKey.Produce: 3, ApiKey.Fetch: AS_ON_DISK_SINCE}.get(ApiKey(key), 0)
            if known(key) is not None
            else 0
        )

    def _lowest(self, key: int, served: range) -> int:
        return 0 if known(key) is not None else served.start

    def _highest(self, key: int, served: range) -> int:
        api = known(key)
        if api is None:
            highest = min(served.stop - 1, PASSED[key])
        else:
            highest = min(served.stop - 1, schema(f"{api.name}Request").newest)
        limits = Access(is_read_only=self.is_read_only, denies_unnamed=self.has_lists)
        highest = min(newest_offered(limits, key, highest), OF_CLIENTS.get(key, highest))
        # Later versions contain brokers' addresses between records, which are forwarded without
        # parsing.
        return min(highest, LEADERS_TOLD_SINCE - 1) if api is ApiKey.Fetch else highest

    def body(self, cluster: Message, software: str, version: int) -> bytes:
        """The encoded ApiVersions response for a client of that software: the cluster's response
        with the offered versions. It is encoded once, because thousands of connections ask for
        it."""
        misreads = MISREADS_OLD_MESSAGES in software
        encoded_from, body = self._bodies.get((version, misreads), (None, b""))
        if encoded_from is not cluster:
            rows = self._rows(MISREADS_OLD_MESSAGES if misreads else "")
            response = Message(**{**cluster.__dict__, "api_keys": rows})
            body = encode(NAMES[ApiKey.ApiVersions], version, response)
            self._bodies[version, misreads] = cluster, body
        return body

    @cached_property
    def _bodies(self) -> dict[tuple[int, bool], tuple[Message, bytes]]:
        """The last encoded responses, each with the cluster's response that it was made from. Keys:
        version, and whether the software misreads old messages in a new Fetch."""
        return {}

    def _rows(self, software: str) -> list[Message]:
        offered = dict(self.offered)
        if ApiKey.Fetch in offered:
            offered[ApiKey.Fetch] = served_to(software, offered[ApiKey.Fetch])
        return [
            Message(api_key=key, min_version=versions.start, max_version=versions.stop - 1)
            for key, versions in offered.items()
        ]


@lru_cache(maxsize=16)
def _versions(served: tuple[tuple[int, int, int], ...], *flags: bool) -> Versions:
    return Versions({key: range(lowest, highest + 1) for key, lowest, highest in served}, *flags)
