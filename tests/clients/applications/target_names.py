"""The names of targets: a version of Kafka, `4.4.0`, or `gateway-4.4.0` with a gateway in front."""

from typing import Final

from tests import kafka_server

GATEWAY: Final = "gateway-"
TARGETS: Final = (kafka_server.OLD, kafka_server.NEW, f"{GATEWAY}{kafka_server.NEW}")


def title(name: str) -> str:
    """A target as a document names it."""
    version = name.removeprefix(GATEWAY)
    return f"gateway in front of Kafka {version}" if name != version else f"Kafka {version}"
