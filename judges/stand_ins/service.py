"""The names that kafka-python's fixtures import, for a running broker: see ../kafka_python.py."""


class ExternalService:
    """A broker that somebody else starts and ends."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None: ...

    def close(self) -> None: ...


class SpawnedService:
    """No instance is ever started."""
