"""Connections as streams of bytes: sockets, the event loop, time-outs, and moving bytes."""
