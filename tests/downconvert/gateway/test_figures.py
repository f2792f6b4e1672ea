from downconvert.gateway.figures import BROKERS_MAX, Counters, Figures
from downconvert.gateway.topology import Address
from downconvert.serving.series import OTHERS


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
