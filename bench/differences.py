"""Does `serve --writable` answer any request as Kafka 3.9.1 does?

Both brokers get the same requests in the same state. Requests are made from the messages'
definitions.
docs/differences.md lists the allowed differences with their reasons.

    python -m bench.differences --operations 100000 --seed 1

Java and Maven are needed. A failure ends with the command that repeats it."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from time import monotonic
from typing import Final

from tests.downconvert.broker.differences.run import BLOCK, Run
from tests.downconvert.broker.differences.servers import in_front, side_by_side, with_users
from tests.kafka_server import NEW, OLD

SHOWN: Final = 3  # differences of one kind


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--block", type=int, default=0, help="the first block of operations")
    parser.add_argument("--stop-after", type=int, default=20, help="so many differences")
    parser.add_argument(
        "--gateway",
        choices=(OLD, NEW),
        help="the gateway in front of 4.4.0, beside Kafka of a version",
    )
    parser.add_argument(
        "--users", action="store_true", help="as users with different rights: ACLs, and rules here"
    )
    options = parser.parse_args(arguments)
    print(f"{options.operations:,} operations, seed {options.seed}", flush=True)
    started, count = monotonic(), 0
    gateway = options.gateway
    beside = with_users() if options.users else side_by_side()
    with beside if gateway is None else in_front(gateway) as servers:
        run = Run(servers, options.seed)
        seen = Counter[str]()
        for difference in run.run(options.operations, options.block):
            kind = f"{difference.operation.api.name} {difference.path}"
            seen[kind] += 1
            if seen[kind] <= SHOWN:
                print(difference, flush=True)
            count += 1
            if count >= options.stop_after:
                break
    total = sum(run.asked.values())
    print(f"{total:,} operations in {monotonic() - started:.0f} s: {dict(run.asked)}")
    if options.users:
        print(f"{run.denied:,} answers refuse something for want of a right")
    for reason, times in run.allowed.most_common():
        print(f"may differ, {times} times: {reason}")
    print(f"{count} differences")
    if count:
        users = "--users " if options.users else ""
        again = f"{users}--operations {BLOCK} --seed {options.seed} --block N"
        print(f"reproduce block N: python -m bench.differences {again}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
