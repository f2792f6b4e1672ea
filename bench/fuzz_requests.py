"""Does any request make a broker hang, or raise an error that is not the project's own?

Requests of every API and version with a value in every field, four of five of them damaged, go to a
broker that is read-only or writable; and thousands of them through sockets.

    python -m bench.fuzz_requests --count 1000000 --seed 1 [--sockets 5000]

A failure ends with the command that repeats it."""

import argparse
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import monotonic
from traceback import print_exc
from typing import Final

from downconvert.broker.limits import Limits
from downconvert.broker.server import Server
from tests.damage import mutated
from tests.downconvert.broker.hostile import attempt, hostile_broker, request
from tests.downconvert.broker.talking import Talk

BLOCK: Final = 20_000  # requests to one broker: what has been produced must not fill the disk


class Defects(logging.Handler):
    """Counts the defects that a server logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        print(logging.Formatter().format(record), file=sys.stderr)


def without_sockets(first: int, count: int, seed: int) -> Counter[str]:
    """The outcomes of so many requests, counted. Ends the process at the first defect."""
    became = Counter[str]()
    for start in range(first, first + count, BLOCK):
        writable = start // BLOCK % 2 == 1
        with (
            tempfile.TemporaryDirectory(prefix="fuzz-") as directory,
            hostile_broker(Path(directory), writable=writable) as broker,
        ):
            for number in range(start, min(start + BLOCK, first + count)):
                try:
                    became[attempt(broker, seed, number, number / 100)] += 1
                except Exception:
                    print_exc()
                    again = f"--seed {seed} --first {start} --count {number - start + 1}"
                    sys.exit(f"reproduce: python -m bench.fuzz_requests {again}")
    return became


def through_sockets(count: int, seed: int) -> int:
    """Sends so many; returns the number of defects that the server logged, and of times when
    another client was not served."""
    defects = Defects()
    logging.getLogger("downconvert.broker").addHandler(defects)
    source = Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as directory,
        hostile_broker(Path(directory)) as broker,
        Server(broker, limits=Limits(request=1.0)) as server,
        Talk(server.address) as other,
    ):
        for number in range(count):
            with Talk(server.address) as talk:
                talk.send_frame(mutated(request(source), source))
            if number % 100 == 0 and not other.is_served():
                defects.count += 1
    return defects.count


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--sockets", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    print(f"{options.count:,} requests from {options.first:,}, seed {options.seed}", flush=True)
    started = monotonic()
    became = without_sockets(options.first, options.count, options.seed)
    print(f"{monotonic() - started:.0f} s: {dict(became.most_common())}", flush=True)
    defects = through_sockets(options.sockets, options.seed)
    print(f"{options.sockets:,} through sockets: {defects} defects")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
