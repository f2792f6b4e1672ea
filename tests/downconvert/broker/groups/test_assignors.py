"""Assignments, compared with Kafka's and with what each assignor promises."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.broker.groups.assignors import ASSIGNORS, Assigned, cooperative, sticky
from downconvert.broker.groups.consumer_protocol import Partition, Subscription
from tests import corpus

CASES = [json.loads(line) for line in corpus.vectors("assignors.jsonl").splitlines()]

TOPICS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 7))
WANTED = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]),
    st.lists(st.sampled_from("abcd"), unique=True),
    min_size=1,
)
KINDS = sorted(ASSIGNORS)


def subscriptions(wanted: dict[str, Any], **owned: list[Partition]) -> dict[str, Subscription]:
    return {
        member: Subscription(tuple(topics), owned=frozenset(owned.get(member, ())), generation=1)
        for member, topics in wanted.items()
    }


def after(wanted: dict[str, Any], before: Assigned) -> dict[str, Subscription]:
    return subscriptions(wanted, **before)


@pytest.mark.parametrize("kind", ["range", "roundrobin"])
@pytest.mark.parametrize("case", CASES)
def test_every_member_gets_what_kafka_gives_it(case: dict[str, Any], kind: str) -> None:
    found = ASSIGNORS[kind](case["partitions"], subscriptions(case["subscriptions"]), {})
    assert {member: sorted(partitions) for member, partitions in found.items()} == {
        member: sorted(map(tuple, partitions)) for member, partitions in case[kind].items()
    }


@pytest.mark.parametrize(
    ("kind", "counts", "expected"),
    [
        ("range", {"t1": 5, "t2": 4}, ["t1-0 t1-1 t2-0", "t1-2 t2-1", "t1-3 t2-2", "t1-4 t2-3"]),
        ("roundrobin", {"t1": 3, "t2": 3}, ["t1-0 t2-1", "t1-1 t2-2", "t1-2", "t2-0"]),
    ],
)
def test_static_members_come_first(kind: str, counts: dict[str, int], expected: list[str]) -> None:
    members = subscriptions({key: ["t1", "t2"] for key in ("z", "y", "x", "a")})
    instances = {"z": "instance1", "y": "instance2", "x": "instance3"}
    found = ASSIGNORS[kind](counts, members, instances)
    assert [" ".join(f"{t}-{i}" for t, i in sorted(found[one])) for one in members] == expected


@pytest.mark.parametrize("kind", KINDS)
@given(counts=TOPICS, wanted=WANTED)
def test_every_partition_that_somebody_wants_is_assigned_once(
    kind: str, counts: dict[str, int], wanted: dict[str, list[str]]
) -> None:
    found = ASSIGNORS[kind](counts, subscriptions(wanted), {})
    assert found.keys() == wanted.keys()
    given_out = sorted(one for partitions in found.values() for one in partitions)
    topics = {topic for topics in wanted.values() for topic in topics}
    assert given_out == [
        (topic, index)
        for topic in sorted(counts)
        for index in range(counts[topic])
        if topic in topics
    ]
    for member, partitions in found.items():
        assert {topic for topic, _ in partitions} <= set(wanted[member])


@given(counts=TOPICS, before=WANTED, wanted=WANTED)
def test_sticky_loads_are_level_and_nothing_moves_without_need(
    counts: dict[str, int], before: dict[str, list[str]], wanted: dict[str, list[str]]
) -> None:
    first = sticky(counts, subscriptions(before), {})
    second = sticky(counts, after(wanted, first), {})
    for giver, partitions in second.items():
        for topic, _ in partitions:
            for taker, topics in wanted.items():
                assert topic not in topics or len(partitions) - len(second[taker]) < 2, giver
    assert sticky(counts, after(wanted, second), {}) == second


def test_sticky_members_keep_what_they_have_when_one_comes() -> None:
    both = {key: ["t"] for key in ("a", "b")}
    first = sticky({"t": 9}, subscriptions(both), {})
    second = sticky({"t": 9}, after(both | {"c": ["t"]}, first), {})
    assert {member: len(partitions) for member, partitions in second.items()} == {
        "a": 3,
        "b": 3,
        "c": 3,
    }
    for member in both:
        assert set(second[member]) < set(first[member])


def test_who_claims_what_another_has_since_gets_nothing_for_it() -> None:
    late, early = (
        Subscription(("t",), owned=frozenset({("t", 0)}), generation=generation)
        for generation in (5, 4)
    )
    found = sticky({"t": 2}, {"late": late, "early": early}, {})
    assert found == {"late": [("t", 0)], "early": [("t", 1)]}


@given(counts=TOPICS, before=WANTED, wanted=WANTED)
def test_cooperative_members_never_have_a_partition_at_the_same_time(
    counts: dict[str, int], before: dict[str, list[str]], wanted: dict[str, list[str]]
) -> None:
    rounds = [cooperative(counts, subscriptions(before), {})]
    members = after(wanted, rounds[0])
    for _ in range(3):
        rounds.append(cooperative(counts, members, {}))
        members = after(wanted, rounds[-1])
    for had, has in pairwise(rounds):
        for member, partitions in has.items():
            for other in had.keys() & has.keys() - {member}:
                assert not set(partitions) & set(had[other])
    assert rounds[-1] == sticky(counts, after(wanted, rounds[-1]), {})
