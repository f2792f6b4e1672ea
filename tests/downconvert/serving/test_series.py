"""Metrics name a bounded number of the names that clients send."""

from itertools import pairwise

from downconvert.serving.series import BUCKETS, OTHERS, BoundedLabels


def test_the_first_labels_keep_theirs_and_all_others_share_one() -> None:
    labels = BoundedLabels(2)
    assert labels.of("a", "x") == ("a", "x")
    assert labels.of("a", "y") == ("a", "y")
    assert labels.of("b", "x") == (OTHERS, OTHERS)
    assert labels.of("a", "x") == ("a", "x")
    assert labels.of("a") == (OTHERS,)
    assert labels.of("a", "y") == ("a", "y")


def test_a_limit_of_zero_names_no_client() -> None:
    assert BoundedLabels(0).of("a") == (OTHERS,)


def test_latencies_have_buckets_from_a_millisecond_to_the_time_clients_wait() -> None:
    assert all(one < another for one, another in pairwise(BUCKETS))
    assert (BUCKETS[0], BUCKETS[-1]) == (0.001, 30.0)
    assert sum(5 < bucket < 30 for bucket in BUCKETS) >= 3
