"""Streams: logs that grow while they are read."""
