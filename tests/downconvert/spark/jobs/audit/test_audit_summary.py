"""An audit summarizes a topic, without Spark."""

import pytest

from downconvert.spark.jobs.audit.audit_summary import Topic

SHARES = {(2, "zstd"): 5, (1, "gzip"): 20, (2, "none"): 70, (0, "none"): 3, (1, "zstd"): 2}


def test_shares_come_in_the_order_of_their_formats_and_codecs() -> None:
    found = Topic("t", shares=SHARES).to_json()
    assert [(one["magic"], one["codec"], one["bytes"]) for one in found["shares"]] == [
        (0, "none", 3),
        (1, "gzip", 20),
        (1, "zstd", 2),
        (2, "none", 70),
        (2, "zstd", 5),
    ]
    assert (found["old_bytes"], found["zstd_bytes"]) == (25, 7)
    assert found["ready_for_kafka_4"] is False


@pytest.mark.parametrize(("compressed", "ratio"), [(0, None), (200, 2.5)])
def test_a_ratio_needs_bytes(compressed: int, ratio: float | None) -> None:
    topic = Topic("t", compressed_bytes=compressed, compressed_payload=500.0)
    assert topic.ratio == ratio
