"""Every message in every version: as kafka-python writes it, and read back as it was."""

from itertools import product
from random import Random

import pytest

from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import Parts, encode, write
from downconvert.protocol.schemas import Message
from tests.downconvert.broker.messages import other, random_message, versions

TRIES = 2


@pytest.mark.parametrize("name", versions())
def test_every_version_is_written_as_by_another_client_library_and_read_back(name: str) -> None:
    for version, seed in product(versions()[name], range(TRIES)):
        where = f"v{version}, seed {seed}"
        data = encode(name, version, random_message(Random(seed), name, version))
        assert encode(name, version, decode(name, version, memoryview(data))) == data, where
        if name == "ApiVersionsResponse":
            continue  # the other reads it in version 0 if it can, as that may be a response to any
        theirs = other(name).decode(data, version=version)
        theirs.with_header()
        assert theirs.encode() == data, where


@pytest.mark.parametrize("version", [4, 12])
def test_bytes_of_any_kind_are_written_alike(version: int) -> None:
    written = set()
    for kind in (bytes, bytearray, memoryview):
        partition = Message(partition_index=0, records=kind(b"records"))
        body = Message(responses=[Message(topic="t", partitions=[partition])])
        written.add(bytes(encode("FetchResponse", version, body)))
    assert len(written) == 1


def test_fields_at_their_defaults_need_not_be_given() -> None:
    empty = encode("FetchRequest", 12, Message())
    assert decode("FetchRequest", 12, memoryview(empty)).session_epoch == -1


@pytest.mark.parametrize("version", [4, 12])
def test_records_that_are_sent_are_left_as_they_are(version: int) -> None:
    send = _Send(1_000)
    partition = Message(partition_index=0, records=send)
    body = Message(responses=[Message(topic="t", partitions=[partition])])
    parts = Parts()
    write(parts, "FetchResponse", version, body)
    assert send in parts.parts
    partition.records = bytes(1_000)
    assert parts.before + len(parts.bytes) == len(encode("FetchResponse", version, body))


@pytest.mark.parametrize(
    "fields", [{"max_wait_ms": 2**31}, {"max_wait_ms": "soon"}, {"topics": [None]}]
)
def test_a_value_that_a_field_cannot_have_is_a_defect_of_the_caller(
    fields: dict[str, object],
) -> None:
    with pytest.raises(ValueError, match="FetchRequest v4"):
        encode("FetchRequest", 4, Message(**fields))


class _Send:
    def __init__(self, size: int) -> None:
        self.size = size
        self.completed = False

    def write_to(self, _channel: object, budget: int | None = None) -> int:  # noqa: ARG002
        return 0
