"""Transactions, commits and tombstones give the right offsets, in any order."""

from hypothesis import given
from hypothesis import strategies as st

from downconvert.broker.groups.committed_offsets import CommittedOffsets
from downconvert.internal_topics.group_records import Committed, RecordKey

AT, OTHER = ("t", 0), ("t", 1)
KEY = RecordKey("g", AT)
ONE, TWO = (0, 1), (0, 2)  # producers


def offset(kept: CommittedOffsets) -> int | None:
    found = kept.of("g").get(AT)
    return None if found is None else found.offset


def test_a_transactions_offsets_count_from_its_commit_on() -> None:
    kept = CommittedOffsets()
    kept.put(*KEY, Committed(5), 0, ONE)
    assert (offset(kept), kept.pending("g"), "g" in kept) == (None, {AT}, True)
    kept.end(TWO, committed=True)
    assert offset(kept) is None
    kept.end(ONE, committed=True)
    assert (offset(kept), kept.pending("g")) == (5, set())
    kept.put(*KEY, Committed(15), 2, ONE)
    kept.end(ONE, committed=False)
    assert (offset(kept), kept.pending("g")) == (5, set())


def test_nothing_is_left_of_a_group_whose_only_transaction_is_aborted() -> None:
    kept = CommittedOffsets()
    kept.put(*KEY, Committed(5), 0, ONE)
    kept.end(ONE, committed=False)
    assert ("g" in kept, kept.ids()) == (False, set())


def test_the_end_of_one_transaction_leaves_another_of_the_group_open() -> None:
    """The offsets of a transaction stay pending until its own marker."""
    kept = CommittedOffsets()
    kept.put(*KEY, Committed(5), 0, ONE)
    kept.put(*RecordKey("g", OTHER), Committed(6), 1, TWO)
    kept.end(ONE, committed=True)
    assert kept.pending("g") == {OTHER}
    assert kept.ids() == {"g"}
    kept.end(TWO, committed=True)
    assert kept.of("g")[OTHER].offset == 6
    assert kept.pending("g") == set()


def test_the_later_in_the_log_wins_and_not_the_later_decided() -> None:
    kept = CommittedOffsets()
    kept.put(*KEY, Committed(1), 0, ONE)
    kept.put(*KEY, Committed(2), 1)
    kept.put(*KEY, Committed(3), 2, TWO)
    assert offset(kept) == 2
    kept.end(ONE, committed=True)
    assert offset(kept) == 2
    kept.end(TWO, committed=True)
    assert offset(kept) == 3


def test_a_tombstone_removes_pending_offsets_too() -> None:
    kept = CommittedOffsets()
    for producer in (ONE, TWO):
        kept.put(*KEY, Committed(1), 0, producer)
        kept.put(*RecordKey("g", OTHER), Committed(1), 0, producer)
    kept.remove(KEY)
    assert kept.pending("g") == {OTHER}
    kept.remove(RecordKey("g", OTHER), ONE)  # in a transaction: of its own only
    kept.end(ONE, committed=True)
    assert (kept.of("g"), kept.pending("g")) == ({}, {OTHER})
    kept.end(TWO, committed=True)
    assert list(kept.of("g")) == [OTHER]


def test_nothing_is_left_of_a_transaction_that_took_its_offsets_back() -> None:
    kept = CommittedOffsets()
    kept.put(*KEY, Committed(5), 0, ONE)
    kept.remove(KEY, ONE)
    assert ("g" in kept, kept.ids()) == (False, set())
    kept.end(ONE, committed=True)
    assert ("g" in kept, kept.ids(), kept.of("g")) == (False, set(), {})


GROUPS, PRODUCERS = st.sampled_from("ab"), st.sampled_from([None, ONE, TWO])
PARTITIONS = st.sampled_from([AT, OTHER])
STEPS = st.one_of(
    st.tuples(st.just("put"), GROUPS, PARTITIONS, PRODUCERS),
    st.tuples(st.just("remove"), GROUPS, PARTITIONS, PRODUCERS),
    st.tuples(st.sampled_from(["commit", "abort"]), st.sampled_from([ONE, TWO])),
)


@given(st.lists(STEPS, max_size=30))
def test_committed_offsets_equal_a_replay_of_the_log(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    kept = CommittedOffsets()
    counted: dict[RecordKey, int] = {}
    pending: dict[tuple[int, int], dict[RecordKey, int]] = {ONE: {}, TWO: {}}
    for position, (what, *of) in enumerate(steps):
        if what in ("commit", "abort"):
            (producer,) = of
            kept.end(producer, committed=what == "commit")
            if what == "commit":
                for key, at in pending[producer].items():
                    counted[key] = max(at, counted.get(key, -1))
            pending[producer] = {}
            continue
        group, partition, producer = of
        key = RecordKey(group, partition)
        if what == "put":
            kept.put(*key, Committed(position), position, producer)
            (counted if producer is None else pending[producer])[key] = position
        else:
            kept.remove(key, producer)
            if producer is None:
                counted.pop(key, None)
            for one in (ONE, TWO) if producer is None else (producer,):
                pending[one].pop(key, None)
    open_keys = {key for keys in pending.values() for key in keys}
    for group in "ab":
        mine = {key.partition: at for key, at in counted.items() if key.group_id == group}
        assert {at: one.offset for at, one in kept.of(group).items()} == mine
        assert kept.pending(group) == {key.partition for key in open_keys if key.group_id == group}
    assert kept.ids() == {key.group_id for key in counted.keys() | open_keys}
    assert set(kept.of_topics({"t"})) == counted.keys() | open_keys
    assert kept.of_topics({"u"}) == []
