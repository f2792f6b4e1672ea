"""The sum of the figures of several processes, and the counts that outlive one of them."""

from collections import Counter
from dataclasses import fields, replace
from typing import Any, Final

import pytest

from downconvert.gateway.figures import (
    BROKERS_MAX,
    Counters,
    Figures,
    Latency,
    Process,
    Served,
    of_processes,
    total,
)
from downconvert.gateway.session.census import ClientCensus, ClientKey
from downconvert.gateway.topology import Address
from downconvert.serving.series import BUCKETS, OTHERS


def counted(counters: Counters) -> Figures:
    figures = Figures()
    counters.copy_to(figures)
    return figures


def test_brokers_that_are_replaced_for_ever_take_bounded_memory() -> None:
    counters, count = Counters(), 10 * BROKERS_MAX
    for number in range(count):
        counters.broker_failed(f"old-{number}:9092")
        counters.broker_answered(str(Address(f"old-{number}", 9092)), 0.1, "Fetch")
        counters.broker_failed("lasting:9092")
        counters.broker_answered(str(Address("lasting", 9092)), 0.1, "Fetch")
    figures = counted(counters)
    assert len(figures.failures) <= BROKERS_MAX + 1
    assert len(figures.broker_latencies) <= BROKERS_MAX + 1
    assert figures.failures["lasting:9092"] == count
    assert figures.failures.total() == 2 * count
    assert sum(figures.broker_latencies["lasting:9092"].counts) == count
    assert sum(sum(one.counts) for one in figures.broker_latencies.values()) == 2 * count
    assert f"old-{count - 1}:9092" in figures.failures
    assert OTHERS in figures.failures


def latency(first: int, seconds: float) -> Latency:
    return Latency([first, 1, *[0] * (len(BUCKETS) - 1)], seconds)


def rows(requests: int) -> list[dict[str, Any]]:
    census = ClientCensus()
    for _ in range(requests):
        census.count(ClientKey("c", "", "10.0.0.1", "Fetch", 0), 5.0, translated=True)
    return census.rows()


ONE: Final = Figures(
    processes=1,
    process_id=100,
    restarted=2,
    each={0: Process(3, 4)},
    connections=5,
    brokers=6,
    unready=["a", "b"],
    failures=Counter({"x:1": 7}),
    ends=Counter({"client_closed": 8}),
    throttled={"Fetch": 9.5},
    cluster_seconds={"Fetch": 10.5},
    served={"rule 1": Served({"Fetch": latency(11, 12.5)}, 13, 14)},
    broker_latencies={"x:1": latency(15, 16.5)},
    errors=Counter({("Fetch", 1): 17}),
    clients=rows(2),
    last_old=[("t", "ann", 18.0)],
    cpu_seconds=19.5,
    resident_bytes=20,
    spool_free_bytes=21,
    certificate_until=22.5,
)
OTHER: Final = Figures(
    processes=1,
    process_id=200,
    restarted=1000,
    each={1: Process(1001, 1002)},
    connections=1003,
    brokers=4,
    unready=["b", "c"],
    failures=Counter({"x:1": 1004, "y:2": 1005}),
    ends=Counter({"client_closed": 1006, "timed_out": 1007}),
    throttled={"Fetch": 1008.5, "Produce": 1009.5},
    cluster_seconds={"Fetch": 1010.5, "Produce": 1011.5},
    served={
        "rule 1": Served({"Fetch": latency(1012, 1013.5)}, 1014, 1015),
        "": Served({"Produce": latency(1016, 1017.5)}, 1018, 1019),
    },
    broker_latencies={"x:1": latency(1020, 1021.5), "y:2": latency(1022, 1023.5)},
    errors=Counter({("Fetch", 1): 1024, ("Produce", 2): 1025}),
    clients=rows(3),
    last_old=[("t", "ann", 17.0), ("u", "ann", 1.0)],
    cpu_seconds=1026.5,
    resident_bytes=1027,
    spool_free_bytes=19,
    certificate_until=1029.5,
)


@pytest.mark.parametrize("order", [(ONE, OTHER), (OTHER, ONE)])
def test_figures_of_two_processes_are_added_up_each_in_its_own_way(
    order: tuple[Figures, Figures],
) -> None:
    """Both have the same brokers. One that is short of disk is reported."""
    whole = total(order)
    assert (whole.processes, whole.restarted, whole.connections) == (2, 1002, 1008)
    assert (whole.brokers, sorted(whole.unready)) == (6, ["a", "b", "c"])
    assert whole.each == {0: Process(3, 4), 1: Process(1001, 1002)}
    assert whole.failures == {"x:1": 1011, "y:2": 1005}
    assert whole.ends == {"client_closed": 1014, "timed_out": 1007}
    assert whole.errors == {("Fetch", 1): 1041, ("Produce", 2): 1025}
    assert whole.throttled == {"Fetch": 1018.0, "Produce": 1009.5}
    assert whole.cluster_seconds == {"Fetch": 1021.0, "Produce": 1011.5}
    zeros = [0] * (len(BUCKETS) - 1)
    assert whole.broker_latencies == {
        "x:1": Latency([1035, 2, *zeros], 1038.0),
        "y:2": Latency([1022, 1, *zeros], 1023.5),
    }
    assert whole.served == {
        "rule 1": Served({"Fetch": Latency([1023, 2, *zeros], 1026.0)}, 1027, 1029),
        "": Served({"Produce": Latency([1016, 1, *zeros], 1017.5)}, 1018, 1019),
    }
    assert whole.latencies["Fetch"].seconds == 1026.0
    assert (whole.cpu_seconds, whole.resident_bytes) == (1046.0, 1047)
    assert (whole.spool_free_bytes, whole.certificate_until) == (19, 22.5)
    assert [row["requests"] for row in whole.clients] == [5]
    assert sorted(whole.last_old) == [("t", "ann", 18.0), ("u", "ann", 1.0)]


def test_figures_that_were_added_up_are_not_changed() -> None:
    before = repr((ONE, OTHER))
    whole = total([ONE, OTHER])
    total([whole, ONE])
    assert repr((ONE, OTHER)) == before


def test_counters_outlive_a_process_and_gauges_do_not() -> None:
    """The disk and the certificate of a process that died say nothing about those of today."""
    lasting = ONE.lasting()
    gone = {"processes", "each", "connections", "brokers", "unready", "resident_bytes"}
    gone |= {"process_id", "spool_free_bytes", "certificate_until"}
    for one in fields(Figures):
        whose = Figures(processes=0) if one.name in gone else ONE
        assert getattr(lasting, one.name) == getattr(whose, one.name), one.name


@pytest.mark.parametrize(("a", "b", "least"), [(None, 5, 5), (5, None, 5), (0, 5, 0)])
def test_a_resource_that_one_process_does_not_know_is_that_of_the_others(
    a: int | None, b: int | None, least: int
) -> None:
    ones = [replace(ONE, spool_free_bytes=one, certificate_until=one) for one in (a, b)]
    whole = total(ones)
    assert (whole.spool_free_bytes, whole.certificate_until) == (least, least)
    assert total([Figures(), Figures()]).spool_free_bytes is None


def test_a_process_of_several_clusters_is_counted_once() -> None:
    """Those of several processes have no number: each cluster has its own."""
    shared = of_processes([ONE, replace(ONE, connections=1)])
    assert (shared.processes, shared.restarted) == (1, 2)
    assert (shared.cpu_seconds, shared.resident_bytes) == (19.5, 20)
    both = of_processes([replace(ONE, process_id=None), replace(OTHER, process_id=None), ONE])
    assert (both.processes, both.restarted) == (3, 1004)
    assert (both.cpu_seconds, both.resident_bytes) == (1065.5, 1067)
