import pytest

from downconvert.access.rights import Access, ConfigError, parse_network
from downconvert.gateway.config import parse_address
from downconvert.gateway.security import Credentials
from downconvert.gateway.topology import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kafka:1", Address("kafka", 1)),
        ("kafka", Address("kafka", 9092)),
        ("[::1]:9", Address("::1", 9)),
        ("::1", Address("::1", 9092)),
        ("10.0.0.1:65535", Address("10.0.0.1", 65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":1", "kafka:", "kafka:x", "kafka:65536", "kafka:-1"])
def test_a_wrong_address_has_an_error_that_shows_a_right_one(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_address(text)


def test_only_clients_of_its_networks_are_admitted() -> None:
    access = Access(networks=(parse_network("10.1.0.0/16"), parse_network("::1")))
    assert access.admits("10.1.2.3")
    assert access.admits("::ffff:10.1.2.3")
    assert access.admits("::1%lo")
    assert not access.admits("10.2.0.1")
    assert Access().admits("8.8.8.8")


def test_only_topics_of_its_list_may_be_named() -> None:
    access = Access(topics=("metrics-*", "one"))
    assert access.allows("metrics-cpu")
    assert access.allows("one")
    assert not access.allows("two")
    assert Access().allows("anything")


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(Credentials(mechanism="PLAIN", username="u", secret="hunter2"))


def test_a_mechanism_that_is_not_known_names_those_that_are() -> None:
    with pytest.raises(ConfigError, match="SCRAM-SHA-256"):
        Credentials(mechanism="GSSAPI")
