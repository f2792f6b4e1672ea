"""The gateway's sockets, its event loop, and its threads."""
