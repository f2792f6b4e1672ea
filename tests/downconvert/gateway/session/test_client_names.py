import pytest

from downconvert.gateway.session.client_names import pattern_of, prefix_of


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("app", "app"),
        ("", ""),
        ("rdkafka", "rdkafka"),
        ("orders-consumer", "orders-consumer"),
        ("consumer-orders-17", "consumer-orders-*"),
        ("orders-7f8c9d6b5-x2v9k", "orders-*-*"),
        ("orders-7f8c9d6b5-xzvtk", "orders-*-*"),
        ("orders-xzvtk", "orders-*"),
        ("xzvtk", "xzvtk"),  # a name of its own, and no suffix
        ("orders-xzvtk-consumer", "orders-xzvtk-consumer"),
        ("app-550e8400-e29b-41d4-a716-446655440000", "app-*"),
        ("app_550e8400e29b41d4_3", "app_*_*"),
        ("console-consumer-98213@host12.example", "console-consumer-*@*.example"),
        ("sarama", "sarama"),
    ],
)
def test_generated_parts_of_a_name_are_left_out(name: str, pattern: str) -> None:
    assert pattern_of(name) == pattern
    assert pattern_of(pattern) == pattern


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("app", "app"),
        ("12345678", "12345678"),
        ("123456789", "12345678*"),
        ("1234567*", "1234567*"),
    ],
)
def test_a_long_name_is_known_by_its_beginning(name: str, prefix: str) -> None:
    assert prefix_of(name) == prefix
    assert prefix_of(prefix) == prefix
