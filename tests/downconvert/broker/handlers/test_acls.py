"""Requests for ACLs are answered as by a broker of Kafka that has no authorizer."""

from pathlib import Path

import pytest

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker


@pytest.mark.parametrize("version", range(4))
def test_each_request_about_acls_gets_the_error_that_security_is_disabled(
    tmp_path: Path, version: int
) -> None:
    """ClientCompatibilityTest takes this response for "supported", and so do the admin clients."""
    asked = Message(resource_name="t", principal="User:a", host="*", operation=3)
    sought = Message(resource_name_filter=None, principal_filter=None, host_filter=None)
    with writable_broker(tmp_path, "t") as broker:
        described = ask(broker, ApiKey.DescribeAcls, version, sought)
        assert list(described.resources) == []
        created = ask(broker, ApiKey.CreateAcls, version, Message(creations=[asked, asked]))
        deleted = ask(broker, ApiKey.DeleteAcls, version, Message(filters=[sought]))
        responses = [described, *created.results, *deleted.filter_results]
        assert [one.error_code for one in responses] == [ErrorCode.SECURITY_DISABLED] * 4
        assert all("Authorizer" in one.error_message for one in responses)
