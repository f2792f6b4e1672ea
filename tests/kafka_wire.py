"""The few requests of Kafka's protocol that it takes to start a broker and to make a topic.

Versions that brokers from 0.10 (ApiVersions, Metadata, ListOffsets) and 0.11 (CreateTopics) to 4.x
know. OSError where a broker does not answer.

Not here: how a broker is started (kafka_server.py)."""

import socket
import struct
from collections.abc import Mapping
from typing import Final

_LIST_OFFSETS, _METADATA, _API_VERSIONS, _CREATE_TOPICS = 2, 3, 18, 19
_EARLIEST: Final = -2


class RefusedError(Exception):
    """An error code, and what the broker says of it."""


def answers(port: int) -> bool:
    """Whether ApiVersions is answered without an error."""
    return _ask(port, _API_VERSIONS, 0, b"").int16() == 0


def create_topic(
    port: int, name: str, partitions: int, replicas: int, config: Mapping[str, str]
) -> None:
    """RefusedError: the broker does not."""
    response = _ask(
        port,
        _CREATE_TOPICS,
        2,
        struct.pack(">i", 1)
        + _string(name)
        + struct.pack(">ihii", partitions, replicas, 0, len(config))
        + b"".join(_string(key) + _string(value) for key, value in config.items())
        + struct.pack(">i?", 30_000, False),
    )
    response.int32()  # throttle time
    response.int32()  # one topic
    response.string()
    error, message = response.int16(), response.string()
    if error:
        raise RefusedError(f"no topic {name}: error {error}, {message}")


def brokers(port: int) -> set[int]:
    """The ids of all brokers that this one believes to be alive."""
    response = _ask(port, _METADATA, 1, struct.pack(">i", 0))
    found = set()
    for _ in range(response.int32()):
        found.add(response.int32())
        response.string()  # host
        response.int32()
        response.string()  # rack
    return found


def leaders(port: int, topic: str) -> dict[int, int]:
    """The leader's id by partition, as this broker knows it; -1 while there is none."""
    response = _ask(port, _METADATA, 1, struct.pack(">i", 1) + _string(topic))
    for _ in range(response.int32()):  # brokers
        response.int32()
        response.string()
        response.int32()
        response.string()
    response.int32()  # the controller
    response.int32()  # one topic
    response.int16()
    response.string()
    response.take(">?")
    found = {}
    for _ in range(response.int32()):
        response.int16()
        partition = response.int32()
        found[partition] = response.int32()
        for _ in range(2):  # replicas, and those in sync
            response.take(f">{response.int32()}i")
    return found


def has_log(port: int, topic: str, partition: int) -> bool:
    """Whether this broker leads the partition, and can say where its log begins."""
    body = struct.pack(">ii", -1, 1) + _string(topic)
    response = _ask(port, _LIST_OFFSETS, 1, body + struct.pack(">iiq", 1, partition, _EARLIEST))
    response.int32()  # one topic
    response.string()
    response.int32()  # one partition
    response.int32()
    return response.int16() == 0


class _Response:
    """The fields of a response, from first to last."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._data, self._position)
        self._position += struct.calcsize(layout)
        return values

    def int16(self) -> int:
        return self.take(">h")[0]

    def int32(self) -> int:
        return self.take(">i")[0]

    def string(self) -> str | None:
        size = self.int16()
        if size < 0:
            return None
        self._position += size
        return self._data[self._position - size : self._position].decode()


def _ask(port: int, api: int, version: int, body: bytes) -> _Response:
    request = struct.pack(">hhi", api, version, 1) + _string("tests") + body
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as file:
            head = file.read(4)
            data = file.read(struct.unpack(">i", head)[0]) if len(head) == 4 else b""
    if len(data) < 4:
        raise ConnectionError("closed without a response")
    return _Response(data[4:])


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
