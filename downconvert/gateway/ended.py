"""What is raised where a connection has ended. Not here: why it has (figures.py)."""


class ConnectionEndedError(Exception):
    """The other side closed the connection, or it broke. `peer`: its name, for messages."""

    def __init__(self, peer: str) -> None:
        super().__init__(f"{peer} closed the connection")
        self.peer = peer
