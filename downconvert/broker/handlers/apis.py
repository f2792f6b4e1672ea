"""The table of served requests: their versions and handlers.

A new API is a file with a handler, and a line here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import ApiKey

from . import (
    acls,
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    end_txn,
    fast_fetch,
    fast_offset_commit,
    fast_produce,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl,
    sync_group,
    txn_offset_commit,
)
from .fast_path import FastPath

Handler: TypeAlias = "Callable[[BrokerState, Exchange, float], None]"


@dataclass(frozen=True, slots=True)
class Api:
    """The handler and versions of an API, and the fast path for its common requests."""

    handler: Handler
    versions: range
    fast_path: FastPath | None = None


APIS: Final = {
    ApiKey.Produce: Api(produce.handle, range(14), fast_produce.FAST_PATH),
    ApiKey.Fetch: Api(fetch.handle, range(19), fast_fetch.FAST_PATH),
    ApiKey.ListOffsets: Api(list_offsets.handle, range(12)),
    ApiKey.Metadata: Api(metadata.handle, range(14)),
    ApiKey.OffsetCommit: Api(offset_commit.handle, range(11), fast_offset_commit.FAST_PATH),
    ApiKey.OffsetFetch: Api(offset_fetch.handle, range(11)),
    ApiKey.FindCoordinator: Api(find_coordinator.handle, range(7)),
    ApiKey.JoinGroup: Api(join_group.handle, range(10)),
    ApiKey.Heartbeat: Api(heartbeat.handle, range(5)),
    ApiKey.LeaveGroup: Api(leave_group.handle, range(6)),
    ApiKey.SyncGroup: Api(sync_group.handle, range(6)),
    ApiKey.SaslHandshake: Api(sasl.handshake, range(2)),
    ApiKey.SaslAuthenticate: Api(sasl.authenticate, range(3)),
    ApiKey.DescribeGroups: Api(describe_groups.handle, range(7)),
    ApiKey.ListGroups: Api(list_groups.handle, range(6)),
    ApiKey.DeleteGroups: Api(delete_groups.handle, range(3)),
    ApiKey.OffsetDelete: Api(offset_delete.handle, range(1)),
    ApiKey.OffsetForLeaderEpoch: Api(offset_for_leader_epoch.handle, range(5)),
    ApiKey.ApiVersions: Api(api_versions.handle, range(5)),
    ApiKey.CreateTopics: Api(create_topics.handle, range(8)),
    ApiKey.DeleteTopics: Api(delete_topics.handle, range(7)),
    ApiKey.DeleteRecords: Api(delete_records.handle, range(3)),
    # Not served: later versions of these APIs, for KIP-890's second part, for KIP-939, and between
    # brokers.
    ApiKey.InitProducerId: Api(init_producer_id.handle, range(6)),
    ApiKey.AddPartitionsToTxn: Api(add_partitions_to_txn.handle, range(4)),
    ApiKey.AddOffsetsToTxn: Api(add_offsets_to_txn.handle, range(5)),
    ApiKey.EndTxn: Api(end_txn.handle, range(5)),
    ApiKey.TxnOffsetCommit: Api(txn_offset_commit.handle, range(5)),
    ApiKey.DescribeAcls: Api(acls.describe, range(4)),
    ApiKey.CreateAcls: Api(acls.create, range(4)),
    ApiKey.DeleteAcls: Api(acls.delete, range(4)),
    ApiKey.DescribeConfigs: Api(describe_configs.handle, range(5)),
    ApiKey.AlterConfigs: Api(alter_configs.handle, range(3)),
    ApiKey.DescribeLogDirs: Api(describe_log_dirs.handle, range(6)),
    ApiKey.CreatePartitions: Api(create_partitions.handle, range(4)),
    ApiKey.IncrementalAlterConfigs: Api(alter_configs.handle_incremental, range(2)),
    ApiKey.DescribeCluster: Api(describe_cluster.handle, range(3)),
    ApiKey.DescribeProducers: Api(describe_producers.handle, range(1)),
    ApiKey.DescribeTransactions: Api(describe_transactions.handle, range(1)),
    ApiKey.ListTransactions: Api(list_transactions.handle, range(2)),
}

# API keys. The handlers of these requests write and sync files for each partition, so they run in
# another thread than the requests of producers and consumers.
ADMINISTRATIVE: Final = frozenset(
    api.to_bytes(2)
    for api in (
        ApiKey.CreateTopics,
        ApiKey.DeleteTopics,
        ApiKey.DeleteRecords,
        ApiKey.AlterConfigs,
        ApiKey.CreatePartitions,
        ApiKey.IncrementalAlterConfigs,
    )
)
# Likewise: small requests that may take long, because their records may have to be converted.
OF_RECORDS: Final = frozenset(api.to_bytes(2) for api in (ApiKey.Produce, ApiKey.Fetch))
