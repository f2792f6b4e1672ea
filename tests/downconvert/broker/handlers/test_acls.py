"""Requests for ACLs are answered as by a broker of Kafka that has no authorizer."""

from pathlib import Path

import pytest

from downconvert.protocol.errors import BadRequestError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker

ASKED = Message(
    resource_type=2,
    resource_name="t",
    resource_pattern_type=3,
    principal="User:a",
    host="*",
    operation=4,
    permission_type=5,
)
SOUGHT = Message(
    resource_type_filter=2,
    resource_name_filter=None,
    pattern_type_filter=3,
    principal_filter=None,
    host_filter=None,
    operation=4,
    permission_type=5,
)


@pytest.mark.parametrize("version", range(4))
def test_each_request_about_acls_gets_the_error_that_security_is_disabled(
    tmp_path: Path, version: int
) -> None:
    """ClientCompatibilityTest takes this response for "supported", and so do the admin clients."""
    with writable_broker(tmp_path, "t") as broker:
        described = ask(broker, ApiKey.DescribeAcls, version, SOUGHT)
        assert list(described.resources) == []
        created = ask(broker, ApiKey.CreateAcls, version, Message(creations=[ASKED, ASKED]))
        deleted = ask(broker, ApiKey.DeleteAcls, version, Message(filters=[SOUGHT]))
        responses = [described, *created.results, *deleted.filter_results]
        assert [one.error_code for one in responses] == [ErrorCode.SECURITY_DISABLED] * 4
        assert all("Authorizer" in one.error_message for one in responses)


@pytest.mark.parametrize("field", vars(ASKED).keys() - {"resource_name", "principal", "host"})
def test_an_unknown_number_in_an_acl_to_create_ends_the_connection(
    tmp_path: Path, field: str
) -> None:
    unknown = Message(**vars(ASKED) | {field: 0})
    with writable_broker(tmp_path, "t") as broker, pytest.raises(BadRequestError):
        ask(broker, ApiKey.CreateAcls, 3, Message(creations=[ASKED, unknown]))


@pytest.mark.parametrize("field", [name for name, one in vars(SOUGHT).items() if one is not None])
def test_an_unknown_number_in_a_filter_ends_the_connection(tmp_path: Path, field: str) -> None:
    unknown = Message(**vars(SOUGHT) | {field: 0})
    with writable_broker(tmp_path, "t") as broker:
        with pytest.raises(BadRequestError):
            ask(broker, ApiKey.DescribeAcls, 3, unknown)
        with pytest.raises(BadRequestError):
            ask(broker, ApiKey.DeleteAcls, 3, Message(filters=[SOUGHT, unknown]))
