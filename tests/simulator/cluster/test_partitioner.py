"""The partitioner gives what Kafka's gives."""

import json

import pytest

from simulator.cluster.partitioner import murmur2, partition_for
from tests.corpus import vectors

KNOWN = [json.loads(line) for line in vectors("murmur2.jsonl").splitlines()]


def test_keys_hash_as_in_kafka() -> None:
    assert len(KNOWN) == 200
    for one in KNOWN:
        assert murmur2(bytes.fromhex(one["key"])) == one["murmur2"]


def test_keys_go_to_the_partitions_that_kafka_sends_them_to() -> None:
    for one in KNOWN:
        assert partition_for(bytes.fromhex(one["key"]), 12) == one["partition_of_12"]


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_the_examples_of_kafka_s_own_tests_hold(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed
