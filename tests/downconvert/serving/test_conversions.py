import gc
import weakref

import pytest

from downconvert import ConversionPolicy
from downconvert.broker.config import BrokerConfig
from downconvert.serving.conversions import (
    DEFAULT_RULES,
    NAMES_MAX,
    Policies,
    RecodeRule,
    zstd_recode,
)

POLICY = ConversionPolicy()


def test_the_first_rule_that_fits_decides() -> None:
    rules = (
        RecodeRule({"gzip": "none"}, topic="a*"),
        RecodeRule({"gzip": "lz4"}, client="old*"),
        RecodeRule({"gzip": "snappy"}),
    )
    assert Policies(rules).policy_for(POLICY, "abc", ("old",)).recode["gzip"] == "none"
    assert Policies(rules).policy_for(POLICY, "b", ("x", "older")).recode["gzip"] == "lz4"
    assert Policies(rules).policy_for(POLICY, "b", ("new",)).recode["gzip"] == "snappy"
    assert Policies(()).policy_for(POLICY, "b", ("new",)) is POLICY


def test_codecs_that_a_rule_does_not_name_are_left_as_they_are() -> None:
    policy = Policies((RecodeRule({"gzip": "none"}),)).policy_for(POLICY, "t", ("c",))
    assert policy.recode["zstd"] == POLICY.recode["zstd"]


def test_a_rule_for_a_codec_is_for_every_format() -> None:
    assert POLICY.recode["lz4:magic0"] == "gzip"
    policy = Policies((RecodeRule({"lz4": "none"}),)).policy_for(POLICY, "t", ("c",))
    assert "lz4:magic0" not in policy.recode
    assert policy.recode["lz4"] == "none"


@pytest.mark.parametrize(
    "name", ["kafka-node-client", "job@host (github.com/segmentio/kafka-go)", ""]
)
def test_clients_that_cannot_cope_with_compressed_messages_get_none(name: str) -> None:
    rules = BrokerConfig().recode_rules
    assert rules == DEFAULT_RULES
    recode = Policies(rules).policy_for(POLICY, "t", (name,)).recode
    assert set(recode.values()) == {"none"}
    assert Policies(rules).policy_for(POLICY, "t", ("rdkafka",)) is POLICY


def test_clients_from_before_zstd_get_what_the_policy_says_in_its_place() -> None:
    assert zstd_recode(POLICY, may_convert=True) == {"zstd": "gzip"}
    assert zstd_recode(POLICY, may_convert=False) == {"zstd": "refuse"}
    assert zstd_recode(ConversionPolicy.kafka(), may_convert=True) == {"zstd": "refuse"}


class Name(str):
    """One that can be seen to go."""


@pytest.mark.parametrize("size", [NAMES_MAX, NAMES_MAX + 1])
def test_long_names_of_clients_are_not_remembered(size: int) -> None:
    """Each client chooses its own, and they may be of many kilobytes."""
    rules = (RecodeRule({"gzip": "none"}, client="n*"),)
    name = Name("n" * (size - 40))
    policies = Policies(rules)
    policy = policies.policy_for(POLICY, "t", ("s" * 40, name))
    assert policy.recode["gzip"] == "none"
    known = weakref.ref(name)
    del name
    gc.collect()
    assert (known() is not None) is (size <= NAMES_MAX)
