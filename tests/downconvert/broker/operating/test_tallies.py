"""The counts of all threads are added up, and look like a metric of the Prometheus client."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from downconvert.broker.operating.tallies import Distribution, Tally

BUCKETS = (0.001, 0.5, 30.0)


def lines(registry: CollectorRegistry) -> list[str]:
    """A page, but for when its series began."""
    return sorted(
        line for line in generate_latest(registry).decode().splitlines() if "_created" not in line
    )


def test_counts_of_all_threads_are_added_up() -> None:
    registry = CollectorRegistry()
    tally = Tally("asked", "Requests.", ("api", "version"), registry)
    distribution = Distribution("took", "Seconds.", "api", BUCKETS, registry)

    def count(number: int) -> None:
        for _ in range(1_000):
            tally.add(("Fetch", number % 2), 2)
            distribution.add("Fetch", 0.25)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(8)))
    of_fetch = {"api": "Fetch"}
    for version in ("0", "1"):
        assert registry.get_sample_value("asked_total", of_fetch | {"version": version}) == 8_000
    assert registry.get_sample_value("took_count", of_fetch) == 8_000
    assert registry.get_sample_value("took_sum", of_fetch) == 2_000


def test_pages_are_those_of_the_prometheus_client() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = Tally("asked", "Requests.", ("api",), ours)
    distribution = Distribution("took", "Seconds.", "api", BUCKETS, ours)
    counter = Counter("asked", "Requests.", ("api",), registry=theirs)
    histogram = Histogram("took", "Seconds.", ("api",), buckets=BUCKETS, registry=theirs)
    random = Random(1)
    for _ in range(200):
        api = random.choice(("Fetch", "Produce"))
        value = random.choice((0.0, 0.001, 0.0010001, 0.5, 30.0, 31.0))
        tally.add((api,), value)
        distribution.add(api, value)
        counter.labels(api).inc(value)
        histogram.labels(api).observe(value)
    assert lines(ours) == lines(theirs)


def test_threads_that_have_ended_leave_no_more_behind_than_those_at_a_time() -> None:
    registry = CollectorRegistry()
    tally = Tally("asked", "Requests.", ("api",), registry)
    for _ in range(50):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(tally.add, ("Fetch",)).result()
    assert registry.get_sample_value("asked_total", {"api": "Fetch"}) == 50
    assert len(tally.by_thread) < 50
