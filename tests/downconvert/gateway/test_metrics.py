"""Every series of the metrics, from figures in which no two numbers are equal.

Not here: the page over HTTP, and what is counted (test_observing.py)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from downconvert.gateway.clusters import ONLY
from downconvert.gateway.figures import End, Figures, Latency, Process, Served
from downconvert.gateway.metrics import GatewayCollector
from downconvert.gateway.session.census import ClientCensus, ClientKey
from downconvert.serving.process_figures import installed_version
from downconvert.serving.series import BUCKETS, CLIENTS_MAX, OTHERS

PREFIX: Final = "downconvert_gateway_"
BUCKET_COUNT: Final = len(BUCKETS) + 1
Labels = tuple[tuple[str, str], ...]
Samples = dict[tuple[str, Labels], float]


@dataclass
class Cluster:
    """A gateway of one cluster, of which only its figures are asked."""

    counts: Figures

    def figures(self) -> Figures:
        return self.counts


def samples(clusters: Mapping[str, Figures]) -> Samples:
    gateways: Any = {name: Cluster(figures) for name, figures in clusters.items()}
    return collected(GatewayCollector(gateways))


def collected(collector: GatewayCollector) -> Samples:
    """All samples of a scrape by their names, without the prefix, and labels."""
    found: Samples = {}
    for family in collector.collect():
        for one in family.samples:
            assert one.name.startswith(PREFIX)
            key = one.name.removeprefix(PREFIX), tuple(sorted(one.labels.items()))
            assert key not in found
            found[key] = one.value
    return found


def of(found: Samples, name: str) -> dict[Labels, float]:
    return {labels: value for (known, labels), value in found.items() if known == name}


def by(found: Samples, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name by the values of their labels, in the order of the labels' names."""
    return {tuple(value for _, value in labels): one for labels, one in of(found, name).items()}


def alone(found: Samples, name: str) -> float:
    ((labels, value),) = of(found, name).items()
    assert labels == ()
    return value


def latency(*counts: int, seconds: float) -> Latency:
    """So many in the first buckets, and one above all of them."""
    return Latency([*counts, *[0] * (BUCKET_COUNT - len(counts) - 1), 1], seconds)


FIGURES: Final = Figures(
    processes=2,
    process_id=3,
    restarted=4,
    each={1: Process(51, 52), 0: Process(53, 54)},
    connections=6,
    brokers=7,
    failures=Counter({"b:1": 8, "b:2": 9}),
    ends=Counter({End.CLIENT: 10, End.LOGIN: 11}),
    throttled={"Produce": 12.5},
    cluster_seconds={"Fetch": 13.5},
    served={
        "": Served({"Metadata": latency(1, 2, seconds=14.5)}, 15, 16),
        "rule 2": Served({"Fetch": latency(3, seconds=17.5)}, 18, 19),
        "rule 1": Served(
            {"Fetch": latency(4, seconds=20.5), "Produce": latency(0, 5, seconds=21.5)}, 22, 23
        ),
    },
    broker_latencies={"b:1": latency(0, 0, 6, seconds=24.5)},
    errors=Counter({("Fetch", 1): 25, ("Produce", 999): 26}),
    cpu_seconds=27.5,
    resident_bytes=28,
    spool_free_bytes=29,
    certificate_until=30.5,
)


@pytest.fixture(scope="module")
def found() -> Samples:
    return samples({ONLY: FIGURES})


def test_each_figure_of_the_gateway_has_its_own_metric(found: Samples) -> None:
    expected = {
        "processes": 2,
        "restarted_processes_total": 4,
        "connections": 6,
        "brokers": 7,
        "cpu_seconds_total": 27.5,
        "resident_memory_bytes": 28,
        "spool_free_bytes": 29,
        "certificate_valid_until_seconds": 30.5,
        "unreported_requests_total": 0,
        "ready": 1,
    }
    assert {name: alone(found, name) for name in expected} == expected
    assert by(found, "build_info") == {(installed_version(),): 1}


def test_it_is_ready_if_there_is_no_reason_against_it() -> None:
    for unready, ready in (([], 1), (["no broker answers"], 0)):
        assert alone(samples({ONLY: replace(FIGURES, unready=unready)}), "ready") == ready


def test_counts_with_one_label_are_their_own(found: Samples) -> None:
    assert by(found, "broker_failures_total") == {("b:1",): 8, ("b:2",): 9}
    assert by(found, "throttled_seconds_total") == {("Produce",): 12.5}
    assert by(found, "cluster_seconds_total") == {("Fetch",): 13.5}
    assert by(found, "process_connections") == {("0",): 53, ("1",): 51}
    assert by(found, "process_resident_memory_bytes") == {("0",): 54, ("1",): 52}
    assert by(found, "rule_received_bytes_total") == {("rule 1",): 22, ("rule 2",): 18}
    assert by(found, "rule_sent_bytes_total") == {("rule 1",): 23, ("rule 2",): 19}


def test_every_reason_for_an_end_is_there_from_the_start(found: Samples) -> None:
    """Prometheus sees no increase in a series that begins with 1."""
    ends = by(found, "connections_ended_total")
    nothing = dict.fromkeys(((str(one),) for one in End), 0)
    assert ends == nothing | {("client_closed",): 10, ("failed_login",): 11}
    assert by(samples({ONLY: Figures()}), "connections_ended_total") == nothing


def test_errors_have_kafkas_name_or_else_their_number(found: Samples) -> None:
    assert by(found, "errors_total") == {
        ("Fetch", "OFFSET_OUT_OF_RANGE"): 25,
        ("Produce", "999"): 26,
    }


def histogram(found: Samples, name: str) -> dict[str, tuple[list[float], float, float]]:
    """By the label's value: the counts up to the bounds in their order, the sum and the count."""
    every: dict[str, dict[float, float]] = {}
    for labels, value in of(found, f"{name}_bucket").items():
        texts = dict(labels)
        every.setdefault("".join(texts[one] for one in texts if one != "le"), {})[
            float(texts["le"])
        ] = value
    sums, counts = by(found, f"{name}_sum"), by(found, f"{name}_count")
    assert [sorted(one) for one in every.values()] == [[*BUCKETS, float("inf")]] * len(every)
    return {
        label: ([one[bound] for bound in sorted(one)], sums[label,], counts[label,])
        for label, one in every.items()
    }


def up_to(*counts: float, above: int = 1) -> list[float]:
    """Counts that stay as they are up to the last bound, and so many above it."""
    last = counts[-1]
    return [*counts, *[last] * (BUCKET_COUNT - len(counts) - 1), last + above]


def test_histograms_count_what_is_below_each_bound_and_add_up_seconds(found: Samples) -> None:
    assert histogram(found, "request_duration_seconds") == {
        "Metadata": (up_to(1, 3), 14.5, 4),
        "Fetch": (up_to(7, above=2), 38.0, 9),
        "Produce": (up_to(0, 5), 21.5, 6),
    }
    assert histogram(found, "rule_request_duration_seconds") == {
        "rule 1": (up_to(4, 9, above=2), 42.0, 11),
        "rule 2": (up_to(3), 17.5, 4),
    }
    assert histogram(found, "broker_answer_duration_seconds") == {"b:1": (up_to(0, 0, 6), 24.5, 7)}


@pytest.mark.parametrize("free", [None, 0, 1])
@pytest.mark.parametrize("until", [None, 0.0, 1.0])
def test_zero_is_a_sample_and_an_absent_value_is_not(free: int | None, until: float | None) -> None:
    """A full disk and a certificate of 1970 are no missing ones. One does not hide the other."""
    figures = replace(FIGURES, spool_free_bytes=free, certificate_until=until)
    found = samples({ONLY: figures})
    assert of(found, "spool_free_bytes") == ({} if free is None else {(): free})
    expected = {} if until is None else {(): until}
    assert of(found, "certificate_valid_until_seconds") == expected


# --- clients


COUNTS: Final = ("requests", "translated_requests", "converted_records", "converted_bytes")


def census(*clients: tuple[ClientKey, tuple[int, int, int, int]]) -> list[dict[str, Any]]:
    """Rows with these counts, in the order of COUNTS."""
    made = ClientCensus()
    for key, (requests, translated, records, size) in clients:
        for number in range(requests):
            known = made.count(key, 1.0, translated=number < translated)
        made.converted(known, records, size)
    return made.rows()


def key(client: str, address: str, version: int, principal: str, rule: str = "") -> ClientKey:
    return ClientKey(client, "soft", address, "Fetch", version, principal, rule)


CLIENTS: Final = census(
    (key("a", "10.0.0.1", 0, "ann", "rule 1"), (3, 2, 30, 300)),
    (key("a", "10.0.0.1", 4, "ann", "rule 1"), (5, 1, 50, 500)),
    (key("a", "10.0.0.2", 4, "ann", "rule 2"), (7, 4, 70, 700)),
    (key("b", "10.0.0.1", 4, "bob", "rule 1"), (11, 6, 110, 1100)),
)


def counts(found: Samples, prefix: str) -> dict[tuple[str, ...], tuple[float, ...]]:
    """The four counts by labels."""
    each = [by(found, f"{prefix}{name}_total") for name in COUNTS]
    assert all(one.keys() == each[0].keys() for one in each)
    return {labels: tuple(one[labels] for one in each) for labels in each[0]}


def test_clients_are_added_up_by_version_by_client_and_by_principal() -> None:
    found = samples({ONLY: replace(FIGURES, clients=CLIENTS)})
    assert counts(found, "") == {
        ("Fetch", "0"): (3, 2, 30, 300),
        ("Fetch", "4"): (23, 11, 230, 2300),
    }
    assert counts(found, "client_") == {  # address, client id
        ("10.0.0.1", "a"): (8, 3, 80, 800),
        ("10.0.0.2", "a"): (7, 4, 70, 700),
        ("10.0.0.1", "b"): (11, 6, 110, 1100),
    }
    assert counts(found, "principal_") == {
        ("ann", "rule 1"): (8, 3, 80, 800),
        ("ann", "rule 2"): (7, 4, 70, 700),
        ("bob", "rule 1"): (11, 6, 110, 1100),
    }


def test_requests_beyond_the_rows_of_the_report_are_counted() -> None:
    others = census(
        (key(OTHERS, OTHERS, 2, OTHERS), (13, 0, 0, 0)),
        (key(OTHERS, OTHERS, 3, OTHERS), (17, 0, 0, 0)),
    )
    rows = [*CLIENTS, *(row | {"merged": 2} for row in others)]
    found = samples({ONLY: replace(FIGURES, clients=rows)})
    assert alone(found, "unreported_requests_total") == 30


@pytest.mark.parametrize("kind", ["client_", "principal_"])
def test_clients_and_principals_are_bounded_each_and_for_each_cluster(kind: str) -> None:
    """A series never disappears: the first ones keep theirs, and the counts of others are added."""

    def rows(first: int, count: int) -> list[dict[str, Any]]:
        return census(
            *(
                (key(f"c{number:03}", "10.0.0.1", 4, f"p{number:03}"), (1, 0, 0, 0))
                for number in range(first, first + count)
            )
        )

    north, south = Cluster(replace(FIGURES, clients=rows(0, CLIENTS_MAX + 5))), Cluster(FIGURES)
    gateways: Any = {"north": north, "south": south}
    collector = GatewayCollector(gateways)
    before = by(collected(collector), f"{kind}requests_total")
    assert len(before) == CLIENTS_MAX + 1
    south.counts = replace(FIGURES, clients=rows(500, 7))
    north.counts = replace(FIGURES, clients=rows(300, 3) + rows(0, CLIENTS_MAX))
    after = by(collected(collector), f"{kind}requests_total")
    shown = {labels for labels in after if "north" in labels}
    assert shown == {labels for labels in before if "north" in labels}
    assert sum(after[labels] for labels in shown) == CLIENTS_MAX + 3
    assert len(after) - len(shown) == 7


# --- several clusters


def test_each_cluster_has_its_series_and_processes_have_none_of_a_cluster() -> None:
    other = replace(
        FIGURES, connections=600, ends=Counter({End.CLIENT: 1000}), served={}, process_id=3
    )
    found = samples({"north": FIGURES, "south": other})
    assert by(found, "connections") == {("north",): 6, ("south",): 600}
    assert of(found, "connections").keys() == {
        (("cluster", "north"),),
        (("cluster", "south"),),
    }
    ends = by(found, "connections_ended_total")
    assert (ends["north", "client_closed"], ends["south", "client_closed"]) == (10, 1000)
    assert by(found, "rule_sent_bytes_total").keys() == {("north", "rule 1"), ("north", "rule 2")}
    assert alone(found, "processes") == 2  # the same process serves both
    assert alone(found, "restarted_processes_total") == 4
    assert alone(found, "cpu_seconds_total") == 27.5
    another = replace(other, process_id=5)
    found = samples({"north": FIGURES, "south": another})
    assert (alone(found, "processes"), alone(found, "resident_memory_bytes")) == (4, 56)


def test_one_named_cluster_has_its_name() -> None:
    """A section may be added later: the series of the first one stay as they are."""
    assert by(samples({"north": FIGURES}), "brokers") == {("north",): 7}


def test_a_family_of_several_clusters_is_one_family() -> None:
    """A page with a name twice is refused by Prometheus."""
    gateways: Any = {name: Cluster(FIGURES) for name in ("a", "b", "c")}
    names = [family.name for family in GatewayCollector(gateways).collect()]
    assert len(names) == len(set(names))
