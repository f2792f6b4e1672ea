"""Kafka's own decoder reads `__transaction_state` as it was written here, record by record."""

import re
import subprocess
from pathlib import Path

from downconvert.broker.topics import TRANSACTIONS_TOPIC
from tests import kafka_server

from .transacting import NOW, TIMEOUT_MS, Producing
from .writable import writable_broker

TOOL = "kafka.tools.DumpLogSegments"


def test_kafka_reads_what_transactional_ids_are_doing(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        producer = Producing(broker)
        producer.begin()
        for commits in (True, False):
            producer.write([b"a"])
            producer.write([b"b"], ("t", 1))
            producer.end(commits=commits)
        broker.transactions.expire(NOW + 8 * 86_400)
        log = broker.topics[TRANSACTIONS_TOPIC].partitions[0].log
        paths = ",".join(str(segment.path()) for segment in log.segments)
        records = list(log.records())
    command = ("java", *kafka_server.QUICK, "-cp", kafka_server.prepare(kafka_server.OLD))
    done = subprocess.run(
        (*command, TOOL, "--transaction-log-decoder", "--files", paths),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "payload:" in line]
    assert len(lines) == len(records)
    assert all("transactionalId=tx" in one for one in lines)
    states = [found[1] for one in lines if (found := re.search(r"state=(\w+)", one))]
    ended = ["Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"]
    aborted = [name.replace("Commit", "Abort") for name in ended]
    assert states == ["Empty", *ended, *aborted]
    ongoing = lines[2]
    assert f"producerId:{producer.id},producerEpoch:0" in ongoing
    assert f"txnTimeoutMs={TIMEOUT_MS}" in ongoing
    assert "t-0" in ongoing
    assert "t-1" in ongoing
    assert f"txnLastUpdateTimestamp={int(NOW * 1000)}" in ongoing
    assert "payload: <DELETE>" in lines[-1]
