"""A client's name decides which versions it is offered."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig, ErrorCode
from downconvert.protocol.fetch_versions import FLEXIBLE_SINCE
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, frame, response_of, someone


@pytest.mark.parametrize(
    ("name", "version", "newest"),
    [
        ("librdkafka", "2.5.0", FLEXIBLE_SINCE - 1),
        ("confluent-kafka-python", "2.12.1-rdkafka-2.12.1", FLEXIBLE_SINCE - 1),
        ("apache-kafka-java", "3.9.1", None),
    ],
)
def test_librdkafka_is_offered_no_fetch_in_which_it_misreads_old_messages(
    name: str, version: str, newest: int | None, tmp_path: Path
) -> None:
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        body = Message(client_software_name=name, client_software_version=version)
        response = ask(broker, ApiKey.ApiVersions, 3, body)
        found = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        served = broker.versions[ApiKey.Fetch]
        assert served.stop > FLEXIBLE_SINCE
        assert found[ApiKey.Fetch] == (served.start, newest or served.stop - 1)
        others = {api: range(least, most + 1) for api, (least, most) in found.items()}
        assert others.items() - {(ApiKey.Fetch, others[ApiKey.Fetch])} <= broker.versions.items()


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["", "a b", "forged\nline", "\x1b[31m"])
def test_a_name_of_software_that_kafka_refuses_is_refused_and_kept_nowhere(
    name: str, version: int, tmp_path: Path
) -> None:
    with LogDir.open(tmp_path) as log_dir:
        broker, client = Broker(log_dir, BrokerConfig()), someone()
        for names in ((name, "1.0"), ("test", name)):
            body = Message(client_software_name=names[0], client_software_version=names[1])
            response = ask(broker, ApiKey.ApiVersions, version, body, client=client)
            assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])
        assert client.software_name == ""
        body = Message(client_software_name="test", client_software_version="1.0")
        assert ask(broker, ApiKey.ApiVersions, version, body, client=client).api_keys


def test_apis_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    with LogDir.open(tmp_path) as log_dir:
        response = ask(Broker(log_dir, BrokerConfig()), ApiKey.ApiVersions, 2, Message())
        numbers = [one.api_key for one in response.api_keys]
        assert numbers == sorted(numbers)
        assert numbers


def test_only_the_start_of_a_long_name_is_kept(tmp_path: Path) -> None:
    with LogDir.open(tmp_path) as log_dir:
        broker, client = Broker(log_dir, BrokerConfig()), someone()
        body = Message(client_software_name="n" * 9000, client_software_version="1" * 9000)
        data = memoryview(frame(ApiKey.ApiVersions, 3, body, client_id="i" * 9000))
        assert not response_of(broker.handle(client, data, 0.0)).error_code
        kept = client.client_id, client.software_name, client.software_version
        assert kept == ("i" * 128, "n" * 128, "1" * 128)
