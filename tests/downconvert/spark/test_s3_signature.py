"""Requests are signed as Amazon's documents do it."""

from datetime import UTC, datetime

from downconvert.spark.s3_signature import Credentials, signed

KEYS = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
NOW = datetime(2013, 5, 24, tzinfo=UTC)
ASKED = {"host": "examplebucket.s3.amazonaws.com", "range": "bytes=0-9"}


def test_the_example_of_a_range_in_the_reference() -> None:
    """ "Example: GET Object" of "Signature Calculations for the Authorization Header"."""
    found = signed("/test.txt", ASKED, "us-east-1", KEYS, NOW)
    assert found["x-amz-date"] == "20130524T000000Z"
    assert found["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


def test_the_token_of_a_session_is_signed_and_nothing_of_it_is_shown() -> None:
    keys = KEYS._replace(token="a token")
    found = signed("/test.txt", ASKED, "us-east-1", keys, NOW)
    assert found["x-amz-security-token"] == "a token"
    assert "x-amz-date;x-amz-security-token," in found["authorization"]
    assert repr(keys) == "Credentials(...)"
