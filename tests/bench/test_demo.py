"""The output of `make demo` about an old client and Kafka 4."""

import pytest

from bench.demo import OLD, Line, compared, memory_lines
from tests import kafka_server


def test_a_line_names_client_cluster_and_records() -> None:
    line = str(Line(f"console consumer {OLD}", "Kafka 4.4.0", 0, 15.0))
    assert line.split() == [
        *("console", "consumer", OLD, "Kafka", "4.4.0", "fails"),
        *("0", "of", "1,000", "records", "in", "15.0", "s"),
    ]


def test_memory_is_shown_for_both_modes() -> None:
    lazy, eager = memory_lines("record=100,size=1MiB,seed=1")
    assert lazy.startswith("lazy conversion ")
    assert eager.startswith("eager conversion ")


@pytest.mark.others
@pytest.mark.skipif(
    bool(kafka_server.missing()) and not kafka_server.REQUIRED, reason="Java or Maven is missing"
)
def test_an_old_client_fails_at_kafka_4_and_reads_through_the_gateway() -> None:
    today, alone, through = compared()
    assert today.records == through.records == 1000
    assert alone.records == 0
