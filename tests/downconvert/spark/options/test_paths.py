"""Paths as Spark and its users give them: a JSON list, a URI, or a path of this machine."""

import pytest

from downconvert.spark.options.paths import json_list, plain


def test_a_list_of_paths_is_read_as_it_is_given() -> None:
    assert json_list('["/a b", "s3://bucket/c?x=y", "/a b"]') == [
        "/a b",
        "s3://bucket/c?x=y",
        "/a b",
    ]
    assert json_list(' [ "/a" ] ') == ["/a"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/a",
        "[",
        '"/a"',
        '{"/a": "/b"}',
        "{}",
        "[1]",
        "[null]",
        '["/a", ""]',
        '["/a", ["/b"]]',
        "[" * 10**6,
    ],
)
def test_values_that_are_no_list_of_paths_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^path: .* is not a JSON list"):
        json_list(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/a/b c", "/a/b c"),
        ("a/b", "a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("s3a://bucket/a?region=x", "s3a://bucket/a?region=x"),
        ("hdfs:///a", "hdfs:///a"),
    ],
)
def test_a_path_of_this_machine_is_plain_and_a_uri_stays(given: str, expected: str) -> None:
    assert plain(given) == expected


@pytest.mark.parametrize("given", ["s3://user:secret@bucket/a", "s3:///a", "gs://u@bucket/a"])
def test_a_uri_with_credentials_or_without_a_bucket_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"credentials do not belong|names no bucket") as caught:
        plain(given)
    assert "secret" not in str(caught.value)
