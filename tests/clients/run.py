"""Runs real old clients against a server, and says which of them read what as they should.

    python -m tests.clients.run --write DIRECTORY                 # the topics, as a broker's log
    python -m tests.clients.run --bootstrap 127.0.0.1:9092        # all clients on all topics
    python -m tests.clients.run --kafka 3.9.1 --clients npm       # a broker of Apache Kafka instead
    python -m tests.clients.run --serve --clients pypi,java       # `downconvert serve`

It ends with 0 where every failure is a client's own, as faults.py has them; else with 1, and the
commands that show each failure again.

Not here: the table in the documentation (report.py)."""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.fetching import InstallError

from . import brokers, report, topics
from .combinations import REGISTRIES, Combination, all_combinations, some_combinations
from .faults import fault_of
from .install import missing
from .outcome import Outcome, kept
from .runs import run


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    chosen_topics = [
        topic for topic in topics.topics() if not asked.topics or topic.name in asked.topics
    ]
    if asked.write:
        asked.write.mkdir(parents=True, exist_ok=True)
        topics.write(asked.write, chosen_topics)
        return 0
    earlier = _earlier(asked.earlier)
    combinations = list(_chosen(asked))
    outcomes: list[Outcome] = []
    with (
        _server(asked, chosen_topics) as bootstrap,
        ThreadPoolExecutor(asked.jobs) as pool,
        asked.json.open("w") as written,
    ):
        print(f"{len(combinations)} combinations, {len(chosen_topics)} topics, {bootstrap}")

        def one(combination: Combination) -> list[Outcome]:
            right = {
                topic.name: earlier[str(combination), topic.name]
                for topic in chosen_topics
                if (str(combination), topic.name) in earlier
            }
            left = [topic for topic in chosen_topics if topic.name not in right]
            try:
                found = run(combination, bootstrap, left, asked.wait)
            except InstallError as error:
                reason = f"not installed: {error}"
                found = [Outcome(combination, topic.name, reason) for topic in left]
            by_topic = right | {outcome.topic: outcome for outcome in found}
            return [by_topic[topic.name] for topic in chosen_topics]

        for number, found in enumerate(pool.map(one, combinations), 1):
            outcomes += found
            _say(f"{number:>3}", found)
            written.writelines(json.dumps(outcome.as_json()) + "\n" for outcome in found)
            written.flush()
    return _sum_up(outcomes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    server = parser.add_mutually_exclusive_group(required=True)
    server.add_argument("--bootstrap", metavar="HOST:PORT", help="a server that has the topics")
    server.add_argument("--kafka", metavar="VERSION", help="start a broker of Apache Kafka")
    server.add_argument("--serve", action="store_true", help="start `downconvert serve`")
    server.add_argument("--write", type=Path, metavar="DIRECTORY", help="only write the topics")
    registries = ", ".join(("all", "some", *REGISTRIES))
    parser.add_argument("--clients", default="all", help=f"{registries}; several with commas")
    parser.add_argument("--only", default="", help="combinations that have these words")
    parser.add_argument("--topics", type=_names, default=[], help="names, with commas")
    parser.add_argument("--wait", type=float, default=8.0, help="seconds for a topic")
    parser.add_argument("--jobs", type=int, default=3, help="clients at a time")
    parser.add_argument(
        "--json", type=Path, default=os.devnull, metavar="FILE", help="outcomes, one a line"
    )
    parser.add_argument(
        "--earlier", type=Path, metavar="FILE", help="of --json: what was right there is not run"
    )
    return parser


def _earlier(path: Path | None) -> dict[tuple[str, str], Outcome]:
    """The results that were right in an earlier run."""
    found = kept(path) if path is not None else ()
    return {(str(one.combination), one.topic): one for one in found if not one.wrong}


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _chosen(asked: argparse.Namespace) -> Iterator[Combination]:
    registries = _names(asked.clients)
    found = some_combinations() if registries == ["some"] else all_combinations()
    for combination in found:
        if registries not in (["all"], ["some"]) and combination.client.registry not in registries:
            continue
        if asked.only in str(combination):
            absent = missing(combination.client.registry)
            if not absent:
                yield combination
            else:
                print(f"left out: {combination} (for want of {', '.join(absent)})")


@contextmanager
def _server(asked: argparse.Namespace, chosen: Sequence[topics.Topic]) -> Iterator[str]:
    """The address of a server that has the topics."""
    if asked.bootstrap:
        yield asked.bootstrap
        return
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clients-")))
        topics.write(directory, list(chosen))
        if asked.kafka:
            kafka = brokers.kafka_with(chosen, directory, asked.kafka)
            yield stack.enter_context(kafka).bootstrap
        else:
            yield stack.enter_context(brokers.served(directory))


def _say(number: str, outcomes: Sequence[Outcome]) -> None:
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    seconds = sum(outcome.seconds for outcome in outcomes)
    right = f"{len(outcomes) - len(wrong)}/{len(outcomes)}"
    print(f"{number}  {outcomes[0].combination!s:<44} {right:>6} {seconds:6.1f} s", flush=True)
    for outcome in wrong:
        own = fault_of(outcome.combination, outcome.topic)
        message = f"the client's own: {own}" if own else outcome.wrong
        print(f"       {outcome.topic}: {message[:200]}")


def _sum_up(outcomes: Sequence[Outcome]) -> int:
    counts = Counter(report.verdict(outcome) for outcome in outcomes)
    print(", ".join(f"{counts[name]} {name}" for name in report.VERDICTS))
    for outcome in outcomes:
        if report.verdict(outcome) == report.WRONG:
            print(f"reproduce: --only '{outcome.combination}' --topics {outcome.topic}")
    return 1 if counts[report.WRONG] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
