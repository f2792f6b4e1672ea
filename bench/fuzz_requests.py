"""Does any request make a broker hang, or raise a foreign error?

Requests of every API and version have a value in every field. Four of five are damaged. They go to
a broker that is read-only or writable, and thousands of them go through sockets. With `--users` the
broker is writable and has users and rules, and clients are logged in, log in, or are anonymous. No
response may have data of other clients.

    python -m bench.fuzz_requests --count 1000000 --seed 1 [--sockets 5000] [--users]

A failure ends with the command that repeats it."""

import argparse
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from time import monotonic
from traceback import print_exc
from typing import Final

from downconvert.broker.server import Server
from downconvert.serving.limits import Limits
from tests.damage import mutated
from tests.downconvert.broker.hostile import (
    attempt,
    attempt_as_somebody,
    guarded_broker,
    hostile_broker,
    request,
)
from tests.downconvert.broker.talking import Talk

BLOCK: Final = 20_000  # requests to one broker, so that produced records do not fill the disk


class Defects(logging.Handler):
    """Counts the defects that a server logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        print(logging.Formatter().format(record), file=sys.stderr)


def without_sockets(first: int, count: int, seed: int, *, users: bool = False) -> Counter[str]:
    """Sends this many requests, and counts the outcomes. Ends the process at the first defect."""
    attempted = attempt_as_somebody if users else attempt
    became = Counter[str]()
    for start in range(first, first + count, BLOCK):
        writable = start // BLOCK % 2 == 1
        with tempfile.TemporaryDirectory(prefix="fuzz-") as directory, ExitStack() as stack:
            path = Path(directory)
            made = guarded_broker(path) if users else hostile_broker(path, writable=writable)
            broker = stack.enter_context(made)
            end = min(start + BLOCK, first + count)
            for number in range(start, end):
                try:
                    became[attempted(broker, seed, number, number / 100)] += 1
                except Exception:
                    print_exc()
                    again = f"--seed {seed} --first {start} --count {number - start + 1}"
                    again += " --users" * users
                    sys.exit(f"reproduce: python -m bench.fuzz_requests {again}")
        print(f"{end - first:,} so far", file=sys.stderr, flush=True)
    return became


def through_sockets(count: int, seed: int) -> int:
    """Sends this many requests. Returns the number of failures: defects that the server logged, and
    times when another client was not served."""
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
    parser.add_argument("--users", action="store_true")
    options = parser.parse_args(arguments)
    print(f"{options.count:,} requests from {options.first:,}, seed {options.seed}", flush=True)
    started = monotonic()
    became = without_sockets(options.first, options.count, options.seed, users=options.users)
    print(f"{monotonic() - started:.0f} s: {dict(became.most_common())}", flush=True)
    defects = through_sockets(options.sockets, options.seed)
    print(f"{options.sockets:,} through sockets: {defects} defects")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
