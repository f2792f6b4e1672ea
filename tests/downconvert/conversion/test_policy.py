"""A policy's defaults, its rules for codecs, and the options that it refuses."""

import copy
import pickle
from dataclasses import replace

import pytest

from downconvert import ConversionPolicy
from downconvert.conversion.rules import rules_for
from records import Codec
from records.units import KiB

from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

KEPT = [Codec.NONE, Codec.GZIP, Codec.SNAPPY]


def test_a_policy_is_a_value():
    assert ConversionPolicy() == ConversionPolicy()
    assert hash(ConversionPolicy()) == hash(ConversionPolicy())
    assert ConversionPolicy(recode={"zstd": "none"}) != ConversionPolicy()
    with pytest.raises(AttributeError):
        ConversionPolicy().chunk_size = 1  # type: ignore[misc]


def test_a_policy_travels_to_other_processes():
    for policy in (ConversionPolicy(), ConversionPolicy.kafka()):
        assert pickle.loads(pickle.dumps(policy)) == policy
        assert copy.deepcopy(policy) == policy


def test_options_are_keywords():
    with pytest.raises(TypeError):
        ConversionPolicy(16384)  # type: ignore[misc]


def test_the_default_reads_16_kib_promises_exactly_and_refuses_nothing():
    policy = ConversionPolicy()
    assert policy.chunk_size == 16 * KiB
    assert policy.size == "exact"
    assert all(policy.codec_for(codec, magic) is not None for codec in Codec for magic in (0, 1))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", KEPT)
def test_the_default_keeps_the_codecs_that_every_client_reads(codec, magic):
    assert ConversionPolicy().codec_for(codec, magic) is codec


def test_the_default_recodes_zstd_and_the_broken_lz4_of_v0():
    assert ConversionPolicy().codec_for(Codec.ZSTD, 0) is Codec.GZIP
    assert ConversionPolicy().codec_for(Codec.ZSTD, 1) is Codec.GZIP
    assert ConversionPolicy().codec_for(Codec.LZ4, 0) is Codec.GZIP
    assert ConversionPolicy().codec_for(Codec.LZ4, 1) is Codec.LZ4


def test_kafka_refuses_zstd_and_keeps_the_rest():
    policy = ConversionPolicy.kafka()
    assert policy.codec_for(Codec.ZSTD, 1) is None
    assert [policy.codec_for(codec, 0) for codec in (*KEPT, Codec.LZ4)] == [*KEPT, Codec.LZ4]


def test_zstd_without_a_rule_is_refused_because_old_formats_lack_it():
    assert ConversionPolicy(recode={}).codec_for(Codec.ZSTD, 1) is None


def test_zstd_stays_in_batches_of_v2_which_have_it():
    policy = ConversionPolicy(recode={})
    assert [policy.codec_for(Codec.ZSTD, magic) for magic in (0, 1, 2)] == [None, None, Codec.ZSTD]
    policy = ConversionPolicy(recode={"zstd": "refuse"})
    assert [policy.codec_for(Codec.ZSTD, magic) for magic in (0, 1, 2)] == [None] * 3


def test_a_rule_for_one_format_overrides_the_rule_for_all():
    policy = ConversionPolicy(recode={"lz4": "snappy", "lz4:magic0": "none"})
    assert policy.codec_for(Codec.LZ4, 0) is Codec.NONE
    assert policy.codec_for(Codec.LZ4, 1) is Codec.SNAPPY


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"chunk_size": 1}, "chunk_size must be at least"),
        ({"size": "roughly"}, "size is exact or estimate"),
        ({"compression_level": "none"}, "compression_level must be fast or kafka"),
        ({"isolation": "serializable"}, "isolation is"),
        ({"wrapper_size_max": 100}, "wrapper_size_max must be at least 128"),
        ({"recode": {"brotli": "gzip"}}, "'brotli' is not gzip, snappy, lz4 or zstd"),
        ({"recode": {"lz4:magic2": "gzip"}}, "'lz4:magic2' is not"),
        ({"recode": {"none": "gzip"}}, "'none' is not gzip"),
        ({"recode": {"gzip": "zstd"}}, "'zstd' is not none, gzip"),
    ],
)
def test_an_impossible_option_is_refused_in_words(options, reason):
    with pytest.raises(ValueError, match=reason):
        ConversionPolicy(**options)


def test_policies_that_differ_have_hashes_that_differ():
    options = {
        "chunk_size": 4096,
        "size": "estimate",
        "recode": {"zstd": "snappy"},
        "isolation": "read_committed",
        "trim_compressed": False,
        "split_at_gaps": False,
        "wrapper_size_max": 128 * KiB,
        "compression_level": "kafka",
    }
    others = [replace(ConversionPolicy(), **{name: value}) for name, value in options.items()]
    assert len({hash(policy) for policy in (ConversionPolicy(), *others)}) == len(options) + 1
    assert hash(replace(others[0], chunk_size=ConversionPolicy().chunk_size)) == hash(
        ConversionPolicy()
    )


def test_the_order_of_rules_does_not_matter():
    one, other = {"zstd": "none", "lz4": "gzip"}, {"lz4": "gzip", "zstd": "none"}
    assert ConversionPolicy(recode=one) == ConversionPolicy(recode=other)
    assert hash(ConversionPolicy(recode=one)) == hash(ConversionPolicy(recode=other))


def test_equal_policies_share_their_rules():
    made = [rules_for(ConversionPolicy(recode={"zstd": "none"}), 1) for _ in range(3)]
    assert made[0] is made[1] is made[2]
