"""The partitions that options select together, compared with a model; and names that select
nothing."""

import json
import random
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from downconvert.spark.plan.planner import partitions
from downconvert.storage import TopicPartition
from tests.downconvert.spark.reading import parsed, partition
from tests.downconvert.storage.logs import batch

THERE: Final = (("a", 0), ("a", 1), ("ab", 0), ("b", 2), ("c.d", 0))
TOPICS: Final = {topic for topic, _ in THERE}
NAMED: Final = ("a", "ab", "b", "a*", "?", "*b", "c.?", "A", "nobody", "x*", "ab?")
PATTERNS: Final = ("a.*", "[ab]", "c.d", "a", "x.*", "A")
NUMBERS: Final = {"0": {0}, "0-1": {0, 1}, "1,2": {1, 2}, "5": {5}, "0,5-7": {0, 5, 6, 7}}


class Selection(NamedTuple):
    """Options, the partitions that they select, and what they name that does not exist."""

    options: dict[str, str]
    wanted: set[tuple[str, int]]
    missing: list[str]


def selections() -> Iterator[Selection]:
    chance = random.Random(27)
    for number in range(240):
        options, wanted, missing = _of_topics(chance, number % 4)
        if chance.random() < 0.5:
            text = chance.choice(sorted(NUMBERS))
            options["partitions"] = text
            wanted = {(topic, number) for topic, number in wanted if number in NUMBERS[text]}
            missing += [] if wanted else ["partitions "]
        yield Selection(options, wanted, missing)


def _of_topics(chance: random.Random, kind: int) -> Selection:
    if kind == 0:
        return Selection({}, set(THERE), [])
    if kind == 1:
        names = chance.sample(NAMED, chance.randrange(1, 4))
        wanted = {one for one in THERE if any(fnmatchcase(one[0], name) for name in names)}
        missing = [name for name in names if not any(fnmatchcase(t, name) for t in TOPICS)]
        return Selection({"topics": ", ".join(names)}, wanted, missing)
    if kind == 2:
        pattern = chance.choice(PATTERNS)
        wanted = {one for one in THERE if re.fullmatch(pattern, one[0])}
        return Selection({"topicsPattern": pattern}, wanted, [] if wanted else [pattern])
    given = chance.sample([*THERE, ("a", 2), ("nobody", 0)], chance.randrange(1, 4))
    assigned: dict[str, list[int]] = {}
    for topic, number in given:
        assigned.setdefault(topic, []).append(number)
    missing = [f"{topic}-{number}" for topic, number in given if (topic, number) not in THERE]
    return Selection({"assign": json.dumps(assigned)}, set(given) & set(THERE), missing)


def test_partitions_are_those_that_all_options_select(tmp_path: Path) -> None:
    for topic, number in THERE:
        partition(tmp_path, batch(0), f"{topic}-{number}")
    for options, wanted, missing in selections():
        given = parsed(tmp_path, **options)
        if missing:
            with pytest.raises(ValueError, match="no such topic or partition") as error:
                partitions(given)
            named = str(error.value).partition(": no such topic")[0]
            assert all(one in named for one in missing), options
        else:
            found = [log.topic_partition for log in partitions(given)]
            assert found == sorted(TopicPartition(*one) for one in wanted), options
