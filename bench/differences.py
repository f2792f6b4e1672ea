"""Does `serve --writable` answer any request as Kafka 3.9.1 does?

Both brokers get the same requests in the same state. Requests are made from the messages'
definitions.
docs/differences.md lists the allowed differences with their reasons.

    python -m bench.differences --operations 100000 --seed 1
    python -m bench.differences --operations 10000 --logins
    python -m bench.differences --operations 10000 --ways pipelined,waiting
    python -m bench.differences --operations 300 --throttled

Java and Maven are needed. A failure ends with the command that repeats it."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from time import monotonic
from typing import Any, Final

from tests.downconvert.broker.differences import logins, throttles
from tests.downconvert.broker.differences.run import ALONE, BLOCK, WAYS, Run
from tests.downconvert.broker.differences.servers import (
    Servers,
    in_front,
    in_front_with_acls,
    in_front_with_rules,
    side_by_side,
    with_users,
)
from tests.kafka_server import NEW, OLD

SHOWN: Final = 3  # differences of one kind
RULES, ACLS = "rules", "acls"


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
        "--users",
        nargs="?",
        const=RULES,
        choices=(RULES, ACLS),
        help="as users with different rights. Kafka has ACLs. rules (the default): serve, or the "
        "gateway, has rules. acls: the cluster behind the gateway has the same ACLs",
    )
    parser.add_argument(
        "--logins", action="store_true", help="so many conversations of logins, in place of these"
    )
    parser.add_argument(
        "--throttled", action="store_true", help="so many clients above or below their rates"
    )
    parser.add_argument(
        "--ways",
        default=ALONE,
        type=lambda text: tuple(text.split(",")),
        help=f"how operations are sent, one or several of {','.join(WAYS)}",
    )
    parser.add_argument(
        "--creates-topics", action="store_true", help="Metadata of an unknown topic creates it"
    )
    options = parser.parse_args(arguments)
    if options.users == ACLS and options.gateway is None:
        parser.error("--users acls needs --gateway: serve has no ACLs")
    if options.logins:
        return _counted(logins.with_logins, logins.differing, "logins", options)
    if options.throttled:
        return _counted(throttles.with_rates, throttles.differing, "clients with rates", options)
    print(f"{options.operations:,} operations, seed {options.seed}", flush=True)
    started, count = monotonic(), 0
    with _servers(options.gateway, options.users, options.creates_topics) as servers:
        run = Run(servers, options.seed, options.ways)
        seen = Counter[str]()
        with suppress(KeyboardInterrupt):
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
        print(f"{run.denied:,} responses refuse something for want of a right")
    for reason, times in run.allowed.most_common():
        print(f"may differ, {times} times: {reason}")
    print(f"{count} differences")
    if count:
        users = f"--users {options.users} " if options.users else ""
        front = f"--gateway {options.gateway} " if options.gateway else ""
        ways = "" if options.ways == (ALONE,) else f"--ways {','.join(options.ways)} "
        again = f"{front}{users}{ways}--operations {BLOCK} --seed {options.seed} --block N"
        print(f"reproduce block N: python -m bench.differences {again}")
    return 1 if count else 0


def _counted(
    servers: Callable[[], AbstractContextManager[Any]],
    differing: Callable[[Any, int, int], Iterator[object]],
    kind: str,
    options: argparse.Namespace,
) -> int:
    started, count = monotonic(), 0
    with servers() as addresses:
        for difference in differing(addresses, options.seed, options.operations):
            print(difference, flush=True)
            count += 1
            if count >= options.stop_after:
                break
    print(f"{options.operations:,} {kind}, seed {options.seed}, in {monotonic() - started:.0f} s")
    print(f"{count} differences")
    return 1 if count else 0


def _servers(
    gateway: str | None, users: str | None, creates_topics: bool
) -> AbstractContextManager[Servers]:
    if gateway is None:
        if users is None:
            return side_by_side(creates_topics=creates_topics)
        return with_users()
    if users is None:
        return in_front(gateway)
    return in_front_with_rules(gateway) if users == RULES else in_front_with_acls(gateway)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
