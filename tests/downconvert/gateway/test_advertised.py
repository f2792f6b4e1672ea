import pytest

from downconvert.access.rights import ConfigError
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.settings import build
from downconvert.protocol.errors import BadRequestError


def inside(node_id: int) -> int:
    return 20_000 + node_id


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("gw.example.org", ("gw.example.org", 20_007)),
        ("broker-{id}.example.org", ("broker-7.example.org", 20_007)),
        ("gw.example.org:{9100+id}", ("gw.example.org", 9107)),
        ("gw.example.org:{9100 + id}", ("gw.example.org", 9107)),
        ("{id}.b{id}.example.org:{id}", ("7.b7.example.org", 7)),
        ("broker-{id}.example.org:443", ("broker-7.example.org", 443)),
        ("10.0.0.1:{30000+id}", ("10.0.0.1", 30_007)),
        ("2001:db8::1", ("2001:db8::1", 20_007)),
        ("[2001:db8::1]:{9100+id}", ("2001:db8::1", 9107)),
    ],
)
def test_a_pattern_says_where_a_broker_is(text: str, address: tuple[str, int]) -> None:
    assert Advertised.parse(text).address(7, inside) == address


@pytest.mark.parametrize(
    "text",
    ["", ":9092", "a:", "a:b", "a:{id", "a:{9100-id}", "a:{id+1}", "a:0", "a:65536", "a:123456",
     "{node}.a", "a {id}", "a/b", "broker-{id.a", "a:{9999999+id}", "https://a:1"],
)  # fmt: skip
def test_a_wrong_pattern_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"HOST:PORT|ports are"):
        Advertised.parse(text)


def test_an_advertised_port_above_65535_is_an_error() -> None:
    with pytest.raises(BadRequestError, match="70007"):
        Advertised("a", port_first=70_000).address(7, inside)


@pytest.mark.parametrize(
    ("name", "node_id"),
    [
        ("b-7.kafka.example.org", 7),
        ("B-7.Kafka.Example.org.", 7),
        ("b-0.kafka.example.org", 0),
        ("b-07.kafka.example.org", None),
        ("b-.kafka.example.org", None),
        ("b--7.kafka.example.org", None),
        ("b-7xkafka.example.org", None),
        ("b-7.kafka.example.org.evil.test", None),
        ("b-99999999999.kafka.example.org", None),
        ("b-\u0667.kafka.example.org", None),
        ("", None),
    ],
)
def test_a_name_says_which_broker_is_wanted(name: str, node_id: int | None) -> None:
    assert Advertised.parse("b-{id}.kafka.example.org:443").node_of(name) == node_id


def test_a_name_with_two_different_ids_is_not_a_brokers() -> None:
    advertised = Advertised.parse("{id}.b{id}.example.org:443")
    assert advertised.node_of("7.b7.example.org") == 7
    assert advertised.node_of("7.b8.example.org") is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"advertise": "gw.example.org:9092"}, "all brokers would be at port 9092"),
        ({"advertise": "b-{id}.example.org:9092"}, "give tls_cert"),
        ({"advertise": 5}, "advertise is 5"),
        ({"advertise": "a:b"}, "cannot be advertised"),
        ({"server_names": ["a"]}, "share a port"),
        ({"server_names": []}, "empty list"),
        ({"advertise_without_name": "a"}, "share a port"),
        (
            {"advertise": "b-{id}:1", "advertise_without_name": "a:1", "tls_cert": "c",
             "tls_key": "k"},
            "a port for each broker",
        ),
    ],
)  # fmt: skip
def test_settings_by_which_no_broker_is_found_are_an_error(
    settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        build({"bootstrap": "a:1", **settings}, {})


def test_names_of_the_gateway_are_settings_in_any_case_and_with_a_dot_at_the_end() -> None:
    """A client's name is compared in lower case and without the dot."""
    names = ["Kafka.Example.org", "old.example.org."]
    shared = {"advertise": "b-{id}.example.org:1", "tls_cert": "c", "tls_key": "k"}
    config = build({"bootstrap": "a:1", "server_names": names, **shared}, {})
    assert config.server_names == ("kafka.example.org", "old.example.org")
