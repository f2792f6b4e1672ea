"""Each request is counted once, in the series of its API, whichever thread serves it."""

from concurrent.futures import ThreadPoolExecutor
from threading import get_ident

from prometheus_client import CollectorRegistry, Histogram

from downconvert.broker.operating.request_counts import NO_VERSION, RequestCounts
from downconvert.serving.series import BUCKETS

FETCH = {"api": "Fetch"}


def test_the_rows_of_all_threads_and_versions_are_added_up() -> None:
    registry = CollectorRegistry()
    counts = RequestCounts("served", registry)

    def count(version: int) -> None:
        row = counts.by_thread[get_ident()]["Fetch", version]
        row.received += 1
        row.received_bytes += 10
        row.sent_bytes += 300
        row.answered(0.25)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, [2, 11] * 50))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"served_{name}", FETCH | labels)

    for version in ("2", "11"):
        assert value("requests_total", version=version) == 50
    assert value("request_bytes_total") == 1_000
    assert value("response_bytes_total") == 30_000
    assert value("request_duration_seconds_count") == 100
    assert value("request_duration_seconds_sum") == 25


def test_buckets_are_those_of_the_prometheus_client() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counts = RequestCounts("served", ours)
    name = "served_request_duration_seconds"
    histogram = Histogram(name, "Seconds.", ("api",), buckets=BUCKETS, registry=theirs)
    for seconds in (0.0, *BUCKETS, 0.0011, 31.0, 99.0):
        counts.by_thread[get_ident()]["Fetch", 2].answered(seconds)
        histogram.labels("Fetch").observe(seconds)
    for limit in (*map(repr, BUCKETS), "+Inf"):
        labels = FETCH | {"le": limit}
        found = ours.get_sample_value(f"{name}_bucket", labels)
        assert found == theirs.get_sample_value(f"{name}_bucket", labels) != 0


def test_a_request_that_is_not_accepted_has_a_response_but_no_version() -> None:
    registry = CollectorRegistry()
    counts = RequestCounts("served", registry)
    counts.by_thread[get_ident()]["Fetch", NO_VERSION].answered(1.0)
    assert registry.get_sample_value("served_request_duration_seconds_count", FETCH) == 1
    assert next(one for one in registry.collect() if one.name == "served_requests").samples == []
