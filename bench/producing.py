"""What throughput does one idempotent producer get from `downconvert serve --writable`, and what
from a Kafka broker?

Both are processes of their own with a topic of one partition. As is Kafka's default, neither waits
for the disk. The producer uses acks=all, and has five requests in flight, like Kafka's own. Each
request has one batch of 64 KiB with records of 100 bytes. After a warm-up, rounds alternate. Ratios
are those of pairs of rounds, because machines are noisy.

    python -m bench.producing [--size 16] [--rounds 9] [--smoke]"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Final

from downconvert.protocol.schemas import ApiKey, Message
from records import build
from records.batches.columns import Columns
from records.formats import V2
from records.record import Record
from records.units import KiB, MiB
from tests import kafka_server, kafka_wire

from .servers.draining import Address, Drained, Wire, paired, parsed, request, taking_turns
from .servers.processes import served
from .serving import FULL_SPEED

TOPIC: Final = "produced"
VALUE_SIZE: Final = 100  # bytes
BATCH_SIZE: Final = 64 * KiB  # a usual batch.size for throughput
UNDER_WAY: Final = 5  # requests: max.in.flight.requests.per.connection
VERSION: Final = 7  # of Produce
ALL: Final = -1  # acks
WARM_UP: Final = 6  # rounds
FIRST_ID: Final = 50  # attempts to get a producer id: a broker may still be starting


class Producer:
    """An idempotent producer, which sends the same number of bytes each time."""

    def __init__(self, wire: Wire, size: int) -> None:
        self._wire = wire
        self._batches = max(1, size // BATCH_SIZE)
        record = Record(0, 1, value=bytes(range(VALUE_SIZE)))
        one, two = (len(build([record] * count, magic=V2)) for count in (1, 2))
        self._count = (BATCH_SIZE - one) // (two - one + 1)  # offset deltas get longer
        records = [Record(n, 1, value=record.value) for n in range(self._count)]
        self._records = Columns.of(records)
        self._id, self._epoch = self._begin()
        self._sequence = 0

    def _begin(self) -> tuple[int, int]:
        body = Message(transactional_id=None, transaction_timeout_ms=60_000)
        for _ in range(FIRST_ID):
            response = self._wire.ask(ApiKey.InitProducerId, 0, body)
            if not response.error_code:
                return response.producer_id, response.producer_epoch
            sleep(0.1)
        raise RuntimeError(f"no producer id: error {response.error_code}")

    def once(self) -> Drained:
        """Sends a round, and waits until all of it is acknowledged."""
        frames = [self._next() for _ in range(self._batches)]
        started = perf_counter()
        for number, frame in enumerate(frames):
            if number >= UNDER_WAY:
                self._take()
            self._wire.send(frame)
        for _ in range(min(UNDER_WAY, len(frames))):
            self._take()
        seconds = perf_counter() - started
        return Drained(self._count * len(frames), sum(map(len, frames)), seconds)

    def _next(self) -> bytes:
        """The next request: the same records with the next sequence numbers."""
        batch = build(
            self._records,
            magic=V2,
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
        )
        self._sequence += self._count
        partition = Message(index=0, records=batch)
        body = Message(
            transactional_id=None,
            acks=ALL,
            timeout_ms=30_000,
            topic_data=[Message(name=TOPIC, partition_data=[partition])],
        )
        return request(ApiKey.Produce, VERSION, body)

    def _take(self) -> None:
        (topic,) = parsed(ApiKey.Produce, VERSION, self._wire.response()).responses
        (partition,) = topic.partition_responses
        if partition.error_code:
            raise RuntimeError(f"a batch is refused: error {partition.error_code}")


def compare(servers: tuple[Address, Address], size: int, warm_up: int, rounds: int) -> str:
    """Measures rounds of two servers in turns, and returns a line about them."""
    with Wire(servers[0]) as first, Wire(servers[1]) as second:
        producers = Producer(first, size), Producer(second, size)
        ours, theirs = taking_turns(producers, warm_up, rounds)
    lines = [
        f"{median(r.rate for r in rounds) / 1e6:6,.0f} MB/s "
        f"{median(r.records_per_second for r in rounds) / 1e6:5.2f} M records/s"
        for rounds in (ours, theirs)
    ]
    return f"acks=all  ours {lines[0]}   Kafka {lines[1]}   {paired(ours, theirs):5.2f}x"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=16, help="MiB that are sent in a round")
    parser.add_argument("--rounds", type=int, default=9, help="pairs")
    parser.add_argument("--smoke", action="store_true", help="small: only that it runs")
    options = parser.parse_args(arguments)
    size, rounds, warm_up = options.size * MiB, options.rounds, WARM_UP
    if options.smoke:
        size, rounds, warm_up = MiB, 1, 0
    print(f"{size // MiB} MiB a round, {rounds} rounds")
    with tempfile.TemporaryDirectory(prefix="producing-") as directory:
        theirs, mine = Path(directory) / "kafka", Path(directory) / "ours"
        theirs.mkdir()
        mine.mkdir()
        running = kafka_server.running(log_dir=theirs, jvm_options=FULL_SPEED)
        with running as kafka, served(mine, "--writable") as ours:
            kafka.create_topic(TOPIC)
            kafka_wire.create_topic(ours.address[1], TOPIC, 1, 1, {})
            servers = ours.address, ("127.0.0.1", kafka.ports[0])
            print(compare(servers, size, warm_up, rounds))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.SubprocessError as error:
        sys.exit(str(error))
