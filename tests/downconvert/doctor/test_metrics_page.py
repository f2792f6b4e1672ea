"""Pages of metrics, as exporters name them."""

import time

import pytest

from downconvert.doctor.metrics_page import MetricsPage

from .wire import read, requests_in

NAMED = (
    'kafka_network_requestmetrics_deprecatedrequestspersec_count{request="Fetch",version="2",'
    'clientSoftwareName="sarama",clientSoftwareVersion="1.2",} 12.0\n'
)
UNNAMED = (
    'kafka_network_RequestMetrics_Count{name="DeprecatedRequestsPerSec",request="Produce",'
    'version="1",clientSoftwareName="unknown",clientSoftwareVersion="unknown"} 3 1700000000000\n'
)
ALL = 'kafka_network_requestmetrics_requestspersec_count{request="ListOffsets",version="0"} 5\n'


def test_deprecated_requests_have_their_software() -> None:
    first, second = read(MetricsPage(5.0), (NAMED + UNNAMED).encode(), 11)
    assert (first.software, first.api, first.version, first.requests) == ("sarama 1.2", 1, 2, 12)
    assert (second.software, second.api, second.requests, second.when) == ("", 0, 3, 5.0)


def test_requests_of_all_versions_are_used_if_nothing_better_exists() -> None:
    assert requests_in(read(MetricsPage(), ALL.encode())) == [(2, 0)]
    assert requests_in(read(MetricsPage(), (ALL + NAMED).encode())) == [(1, 2)]


RATES = [
    NAMED.replace("_count", "_oneminuterate"),
    NAMED.replace("_count", "_total_created"),
    NAMED.replace('"Fetch"', '"FetchConsumer"'),
    NAMED.replace("12.0", "0.0"),
    NAMED.replace("request=", 'quantile="0.5",request='),
    "# HELP x DeprecatedRequestsPerSec\n",
    "jvm_threads 12\n",
]
DAMAGE = [
    NAMED.replace("12.0", "NaN"),
    NAMED.replace("12.0", "-1"),
    NAMED.replace("12.0", ""),
    NAMED.replace('"2"', '"two"'),
    NAMED.replace('"Fetch"', '"Fetsch"'),
    NAMED.replace("} 12.0", ""),
    NAMED.replace("Fetch", "x" * 100_000),
]


@pytest.mark.parametrize("line", [*RATES, *DAMAGE])
def test_rates_and_double_counts_are_left_out_and_damage_is_counted(line: str) -> None:
    page = MetricsPage()
    assert requests_in(read(page, (line + UNNAMED).encode())) == [(0, 1)]
    assert list(page.problems.counts.values()) == [1] * (line in DAMAGE)


def test_a_page_without_request_metrics_is_a_problem() -> None:
    page = MetricsPage()
    assert not read(page, b"jvm_threads 12\n")
    assert page.problems.counts


def test_a_line_takes_time_by_its_length_only() -> None:
    began = time.process_time()
    for piece in ("}", " ", "a", 'a="', "a ", "\\", '="'):
        line = "requestspersec{" + piece * (60_000 // len(piece)) + "! ! \n"
        read(MetricsPage(), line.encode())
    assert time.process_time() - began < 5
