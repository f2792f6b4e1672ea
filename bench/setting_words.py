"""The words for each setting in docs/settings.md.

Not here: names and defaults, which are the code's (settings_reference.py)."""

from typing import Final

LISTENER: Final = {
    "bootstrap": "The cluster's brokers: a list of HOST:PORT.",
    "listen": "The address that clients bootstrap from: HOST:PORT.",
    "advertise": "The address that clients connect to ([how](gateway-names.md)).",
    "advertise_without_name": "The same, for clients that send no server name.",
    "server_names": "The server names that clients may ask for besides the brokers' names.",
    "proxy_networks": "Load balancers, whose connections begin with a header of the PROXY "
    "protocol ([how](gateway-names.md#behind-a-load-balancer)).",
    "node_port_first": "The port of broker 0. By default the listener's port + 1.",
    "node_ports": "Ports of single brokers: a table of id and port.",
    "share_ports": "Listen on the same ports as other gateways of this cluster.",
    "tls_cert": "The listeners' certificate.",
    "tls_key": "The key of that certificate.",
    "tls_min_version": "The oldest TLS that clients may speak: 1.2 by default. 1.0 is not safe.",
    "tls_ciphers": "Ciphers of TLS 1.2 and older, as OpenSSL writes them.",
    "observe": "Pass everything through, and only count requests.",
    "refresh_seconds": "The time between two requests for the cluster's brokers.",
    "spool_dir": "The directory for large responses that do not fit in memory.",
    "recode": "For all old clients: which codec replaces another, or `refuse`.",
    "isolation": "`read_committed`: old clients do not get aborted records.",
}
AT_START: Final = {
    "http": "HOST:PORT of the pages for health, metrics and the report.",
    "workers": "Processes behind the same ports.",
    "audit": "The file for logins, refusals and changes, as lines of JSON.",
    "history": "The file with the dates when old versions were seen last.",
    "verbose": "A log line for each request.",
    "quiet": "Warnings and errors only.",
    "json": "Output and log as JSON lines.",
}
TABLES: Final = {
    "cluster": "How to connect to the cluster: `[cluster]`, below.",
    "limits": "`[limits]`, below.",
    "oauth": "Logins with tokens: `[oauth]`, below.",
    "recode_rules": "`[[recode_rules]]`: as `recode`, for a `client` (client id, or "
    "software/version) and a `topic`, both shell patterns. The first that matches decides.",
    "clients": "`[[clients]]`: [access rules](#access-rules).",
    "clusters": "`[[clusters]]`: the settings of one of "
    "[several clusters](gateway-operation.md#several-clusters), with its `name`. Its tables are "
    "`[clusters.limits]`, `[[clusters.clients]]`, …",
}
CLUSTER: Final = {
    "tls": "Connect with TLS.",
    "ca_file": "The authority that signs the brokers' certificates.",
    "cert_file": "The gateway's own certificate.",
    "key_file": "The key of that certificate.",
    "verify_hostname": "Compare the broker's name with its certificate. On by default.",
    "sasl": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    "username": "The gateway's user.",
    "secret_file": "The password or token. Without it: `$DOWNCONVERT_SASL_SECRET`.",
}
LIMITS: Final = {
    "connections": "Connections of clients.",
    "connections_per_address": "Connections from one address.",
    "request_size": "One request.",
    "translated_size": "One request that is held in memory to be translated.",
    "requests_memory": "All requests that are held in memory to be translated. An address takes at "
    "most half of what it leaves to others. Beyond that, clients wait. Clients that have not "
    "logged in share a sixteenth of as much for themselves. Responses that clients do not read "
    "have as much again.",
    "idle_timeout": "A connection without a request, or a client that takes nothing of its "
    "response. Kafka's `connections.max.idle.ms`.",
    "receive_timeout": "From the first to the last byte of a client's request, except while it "
    "waits for its first memory.",
    "connect_timeout": "A broker: to be connected, authenticated, and to respond once. "
    "Kafka's `socket.connection.setup.timeout.ms`.",
    "request_timeout": "A broker's response to begin, and each pause in it. Kafka's "
    "`request.timeout.ms`. The wait that a request itself asks for is added, half an hour at most.",
    "handshake_timeout": "A client's TLS handshake.",
    "drain_timeout": "Requests under way when the gateway ends.",
    "memory": "Large responses of the cluster that wait. Conversions that wait have 16 MiB.",
}
OAUTH: Final = {
    "jwks": "The issuer's keys: a file or an https URL. Needed.",
    "issuer": "The issuer, as tokens have it in `iss`. Needed.",
    "audience": "One of these must be in `aud`. This or `scope` is needed.",
    "scope": "All of these must be in the scope.",
    "principal_claim": "The claim with the client's name.",
    "scope_claim": "The claim with the scope.",
    "groups_claim": "The claim with the groups, for `group` in rules.",
    "clock_skew": "Seconds by which clocks may differ.",
    "renew_seconds": "The time between two readings of the keys.",
    "ca_file": "The authority that signs the certificate of an https URL.",
}
RIGHTS: Final = {
    "topics": "Topics that may be read; without `written_topics`, also written.",
    "written_topics": "Topics that may be written, created, changed and deleted.",
    "groups": "Groups that may be joined, committed to and deleted.",
    "transactional_ids": "Transactional ids that may be used.",
    "read_only": "Nothing may be changed.",
    "producer_byte_rate": "Bytes a second of a client's produces.",
    "consumer_byte_rate": "Bytes a second of the responses to a client's fetches.",
    "connections": "Connections of a client at a time. Only at the gateway.",
    "connection_creation_rate": "New connections of a client in a second. Only there.",
    "request_percentage": "The gateway's time for a client's requests; 100 is one core. Only "
    "there.",
    "networks": "Addresses that may connect, such as `10.1.0.0/16`. In a rule: its clients.",
    "deny_by_default": "Deny what no list names, even without a list. Only at the top.",
    "users_file": "Users and passwords: lines `NAME:PASSWORD`. Only at the top.",
    "client_ca": "The authority that signs clients' certificates. Only at the top.",
}
RULE: Final = {
    "user": "The user that logged in, a shell pattern.",
    "group": "A group in the client's token, a shell pattern.",
    "certificate": "The common name of the client's certificate, a shell pattern.",
    "super_user": "Everything is allowed, whatever is at the top.",
    "follower_ids": "Broker ids with which these clients may fetch. `serve` only.",
}
TOPICS: Final = {
    "cleanup.policy": "`delete`, `compact`, or both.",
    "compression.gzip.level": "For batches that the broker compresses.",
    "compression.lz4.level": "For batches that the broker compresses.",
    "compression.zstd.level": "For batches that the broker compresses.",
    "compression.type": "The codec of batches on disk. `producer`: as they come.",
    "delete.retention.ms": "How long tombstones and markers stay after they were first cleaned.",
    "index.interval.bytes": "Bytes of the log between two index entries.",
    "max.compaction.lag.ms": "The cleaner begins at the latest when a record is as old as this.",
    "max.message.bytes": "The largest batch that a producer may send.",
    "message.downconversion.enable": "`false`: clients that would need conversion get error 35.",
    "message.format.version": "Below 0.11 the log is written as v1, below 0.10 as v0.",
    "message.timestamp.after.max.ms": "How far in the future a record's time may be.",
    "message.timestamp.before.max.ms": "How far in the past a record's time may be.",
    "message.timestamp.difference.max.ms": "The old name of both.",
    "message.timestamp.type": "`LogAppendTime`: the broker sets the time.",
    "min.cleanable.dirty.ratio": "The share of uncleaned bytes at which the cleaner begins.",
    "min.compaction.lag.ms": "The cleaner leaves younger records alone.",
    "min.insync.replicas": "Replicas that must be in sync for `acks=all`.",
    "retention.bytes": "Whole segments beyond this size are removed, oldest first.",
    "retention.ms": "Whole segments older than this are removed.",
    "segment.bytes": "A segment that would become larger is rolled.",
    "segment.index.bytes": "A segment whose index is full is rolled.",
    "segment.ms": "A segment older than this is rolled, even without an append.",
}
