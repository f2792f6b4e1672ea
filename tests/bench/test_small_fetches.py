import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.small_fetches import main
from tests import kafka_server

pytestmark = [
    pytest.mark.others,
    pytest.mark.skipif(
        bool(kafka_server.missing()) and not kafka_server.REQUIRED, reason="needs Java and Maven"
    ),
]


def test_the_gateway_is_compared_with_kafka_and_with_a_proxy(tmp_path: Path) -> None:
    options = ["--smoke", "--only", "Fetch v12 none", "--only", "Fetch v2 none"]
    ran = CliRunner().invoke(main, [*options, "--json", str(tmp_path / "rows")])
    assert ran.exit_code == 0, ran.output
    rows = json.loads((tmp_path / "rows").read_text())
    compared = {(one["request"], one["server"]): one["cpu_ratio"] is None for one in rows}
    assert compared == {
        ("Fetch v12 none", "gateway"): False,
        ("Fetch v12 none", "Kroxylicious"): True,
        ("Fetch v2 none", "Kafka 3.9.1"): True,
        ("Fetch v2 none", "serve"): False,
        ("Fetch v2 none", "gateway"): False,
    }
    assert all(one["cpu"] > 0 and one["rate"] > 0 for one in rows)
