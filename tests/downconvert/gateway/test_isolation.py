"""No client receives another client's data; python -m bench.isolation looks for longer."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.isolation import Load, topics
from bench.servers.old_clients import Contents, WrongBytesError
from records import Record

from .serving import cluster, gateway

CONSUMERS = 16
RESPONSES = 120


def test_clients_of_one_gateway_read_their_own_bytes_and_no_others(tmp_path: Path) -> None:
    with cluster(tmp_path, *topics()) as (_, port), gateway(port) as running, ExitStack() as stack:
        load = Load((running.address.host, running.address.port), CONSUMERS, 7, stack)
        while load.became["answers"] < RESPONSES or not load.became["left"]:
            load.step()
    assert load.became["records"] > 10 * RESPONSES


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: replace_value(one, one.value[:-1] + b"?"),
        lambda one: replace_value(one, Contents("u").value(one.offset)),
        lambda one: replace_value(one, Contents("t").value(one.offset + 1)),
        lambda one: replace_value(one, None),
    ],
    ids=["a byte", "another topic's", "another offset's", "none"],
)
def test_bytes_of_another_client_are_noticed(spoil: Callable[[Record], Record]) -> None:
    contents = Contents("t")
    right = contents.record(5, 0, 2)
    contents.check(right)
    with pytest.raises(WrongBytesError, match="t-0 at 5"):
        contents.check(spoil(right))


def replace_value(record: Record, value: bytes | None) -> Record:
    return Record(record.offset, record.timestamp, record.timestamp_type, record.key, value)
