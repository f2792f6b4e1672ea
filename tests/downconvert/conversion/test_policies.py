"""A policy as a line of text."""

from dataclasses import replace

import pytest

from downconvert import ConversionPolicy
from downconvert.conversion.policies import parse_policy

from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("default", ConversionPolicy()),
        ("kafka", ConversionPolicy.kafka()),
        ("size=estimate", ConversionPolicy(size="estimate")),
        ("kafka, , size=exact,", replace(ConversionPolicy.kafka(), size="exact")),
        ("default,chunk_size=64KiB", ConversionPolicy(chunk_size=65536)),
        (
            "recode=zstd:gzip+lz4:magic0:none",
            ConversionPolicy(recode={"zstd": "gzip", "lz4:magic0": "none"}),
        ),
        (
            "trim_compressed=no,wrapper_size_max=none",
            ConversionPolicy(trim_compressed=False, wrapper_size_max=None),
        ),
    ],
)
def test_a_policy_is_parsed_from_a_line(text: str, policy: ConversionPolicy) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("strict", "'strict' is not a policy"),
        ("kafka,fast", "'fast' is not one of chunk_size, size"),
        ("kafka,colour=red", "'colour=red' is not one of chunk_size, size"),
        ("chunk_size=1", "chunk_size must be at least"),
        ("chunk_size=big", "chunk_size: 'big' is not a size"),
        ("size=exactly", "size is exact or estimate"),
        ("trim_compressed=maybe", "trim_compressed: 'maybe' is neither yes nor no"),
        ("recode=zstd", "recode: 'zstd' is not CODEC:CODEC"),
        ("recode=zstd:lzma", "recode: 'lzma' is not none, gzip"),
    ],
)
def test_a_wrong_policy_is_an_error_that_shows_the_right_form(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_policy(text)
