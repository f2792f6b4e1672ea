"""A pattern for topics matches what Java's regular expressions match."""

import random

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from downconvert.spark.options.java_patterns import compiled

NAMES = ["orders", "orders-eu.1", "Orders", "a", "ab", "aa-", "_x", "0", "a]b", "a-z", "__consumer"]

PATTERNS = [
    ("orders.*", {"orders", "orders-eu.1"}),
    (r"(?i)ORDERS", {"orders", "Orders"}),
    (r"o(?i)RDERS", {"orders"}),
    (r"x(?i)|ORDERS", {"orders", "Orders"}),
    (r"(?:(?i)O|x)rders", {"orders", "Orders"}),
    (r"(?i)[^O].*", {*NAMES} - {"orders", "orders-eu.1", "Orders"}),
    (r"(?i)[^\w&&[^_]].*", {"_x", "__consumer"}),
    (r"\p{Lower}+", {"orders", "a", "ab"}),
    (r"\p{Upper}\p{L}*", {"Orders"}),
    (r"\P{Alpha}+", {"0"}),
    (r"[a-z&&[^o]][\w.-]*", {"a", "ab", "aa-", "a-z"}),
    (r"[[:]a[b-z]]+", {"orders", "a", "ab"}),
    (r"\Qorders-eu.1\E", {"orders-eu.1"}),
    (r"(?<first>a)\k<first>-", {"aa-"}),
    (r"a*+b", {"ab"}),
    (r"__\w+", {"__consumer"}),
    (r"\x61\u0062?", {"a", "ab"}),
    (r"[]a]+b", {"a]b", "ab"}),
    (r"[a-[bo]]+", {"a", "ab", "aa-"}),
]
REFUSED = [
    "(" * 5000 + ")" * 5000,
    "[" * 5000,
    r"\Gx",
    r"\R",
    r"\X",
    r"a{,2}",
    "(?P<n>a)",
    "(",
    ")",
    "[a",
    r"\p{Nope}",
    "*",
    "[z-a]",
]
TOKENS = [
    *(
        "a",
        "b",
        "-",
        ".",
        "o",
        "x",
        "[a-c]",
        "[^a]",
        "[a-z&&[^b]]",
        "[ab[-_]]",
        r"\w",
        r"\d",
        r"\W",
    ),
    *(
        r"\p{Lower}",
        r"\P{Punct}",
        r"\p{Lu}",
        r"\Qa-\E",
        "(?i)",
        "(?:",
        "(",
        ")",
        "|",
        "*",
        "+",
        "?",
    ),
    *(
        "*+",
        "{1,2}",
        "(?-i)",
        "(?i:",
        "[-a]",
        "[a-]",
        "[a-[b-d]]",
        "[x-z-[ab]]",
        "[^a-[b]&&[a-c]]",
        r"[\w&&\D]",
        r"\.",
        "^",
        "$",
        r"\z",
        "O",
        ".*",
    ),
]


@pytest.mark.parametrize(("pattern", "names"), PATTERNS)
def test_javas_syntax(pattern: str, names: set[str]) -> None:
    assert {name for name in NAMES if compiled(pattern)(name)} == names


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_that_are_not_translated_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compiled(pattern)


def test_java_itself_matches_the_same(spark: SparkSession) -> None:
    """Patterns of random parts; those that Java or the translation refuses are left out."""
    assert spark._jvm is not None
    java = spark._jvm.java.util.regex.Pattern
    for pattern, names in PATTERNS:
        assert {name for name in NAMES if java.matches(pattern, name)} == names
    chance, compared = random.Random(26), 0
    while compared < 300:
        pattern = "".join(chance.choices(TOKENS, k=chance.randrange(1, 7)))
        try:
            made, ours = java.compile(pattern), compiled(pattern)
        except (ValueError, IllegalArgumentException):
            continue
        for name in NAMES:
            assert made.matcher(name).matches() == bool(ours(name)), (pattern, name)
        compared += 1
