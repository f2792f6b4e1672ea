import pytest

from downconvert.protocol.schemas import Message
from downconvert.protocol.software import KEPT_MAX, is_valid, software_of


def software(name: str, version: str = "1.0") -> Message:
    return Message(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("name", ["a", "7", "apache-kafka-java", "sarama", "a.b-c.9", "a" * 1000])
def test_software_names_that_kafka_takes_are_taken(name: str) -> None:
    assert is_valid(software(name), 3)
    assert is_valid(software("x", name), 3)


@pytest.mark.parametrize(
    "name", ["", " ", "-a", "a-", ".a", "a.", "a b", "a_b", "a\n", "\na", "ä", "a\x1b[31m", "٣"]
)
def test_software_names_that_kafka_refuses_are_refused(name: str) -> None:
    assert not is_valid(software(name), 3)
    assert not is_valid(software("x", name), 4)
    assert is_valid(software(name), 2)  # it names no software


def test_software_is_named_with_its_version_if_it_has_one() -> None:
    assert software_of(software("sarama", "1.0")) == "sarama 1.0"
    assert software_of(software("sarama", "")) == "sarama"
    assert software_of(software("", "1.0")) == "1.0"
    assert software_of(software("", "")) == ""
    long = software_of(software("n" * 2 * KEPT_MAX, "v" * 2 * KEPT_MAX))
    assert long == f"{'n' * KEPT_MAX} {'v' * KEPT_MAX}"
