"""Finds the clients that would break with Kafka 4, from the traces of a Kafka 3 cluster.

Request logs, metrics, packet captures and a gateway's report: each kind of evidence has a file. Its
reader is fed bytes as they come, and yields the requests that it finds. Nothing here opens a file
or a socket."""
