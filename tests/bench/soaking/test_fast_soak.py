"""A short soak on simulated clocks, and its findings."""

from collections import deque
from pathlib import Path

from bench.soaking.fast_soak import FastSoak, Sample, growth, report, soak, tables
from downconvert.access.ledger import Entry, OwnLedger
from downconvert.serving.places import Places
from records.units import MiB

SEED = 3
HOURS = 3


def test_nothing_grows_with_time_alone(tmp_path: Path) -> None:
    found = soak(tmp_path, HOURS * 3600, SEED, samples=9)
    assert len(found.samples) == 9
    assert growth(found) == []
    assert len(list(report(found))) > 10


def test_tables_of_all_packages_are_found() -> None:
    ledger, places = OwnLedger(), Places()
    ledger.change("a", lambda _: Entry(1.0, 1))
    places.take("b", 1, 1)
    ledger.noted = [deque([1, 2]), {3}]  # type: ignore[attr-defined]
    found = tables(ledger, places)
    assert found["OwnLedger._entries"] == 1
    assert found["OwnLedger.noted"] == 2 + 2 + 1
    assert found["Places._by_address"] == 1


def made_up(*entries: int) -> FastSoak:
    samples = [
        Sample(60.0 * number, 10, MiB, 0.1, {"Table.rows": count})
        for number, count in enumerate(entries)
    ]
    return FastSoak(samples, 1000.0)


def test_a_table_that_grows_is_named() -> None:
    assert growth(made_up(*range(0, 9000, 1000))) == [
        "Table.rows: 4,000.0 in the second third, 7,000.0 in the last"
    ]
    assert growth(made_up(*[0, 5000] * 5)) == []
