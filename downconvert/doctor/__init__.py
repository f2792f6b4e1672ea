"""Which clients would break with Kafka 4: read from what a Kafka 3 cluster leaves behind.

Request logs, metrics, packet captures and a gateway's report: each kind of evidence has a file, is
fed bytes as they come, and yields requests that were seen. Nothing here opens a file or a socket.
"""
