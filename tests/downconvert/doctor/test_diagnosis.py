"""The clients that would break with each release, and their advice."""

import pytest

from downconvert.doctor import census
from downconvert.doctor.census import Census
from downconvert.doctor.diagnosis import Client, diagnose
from downconvert.doctor.evidence import seen
from downconvert.doctor.releases import NEWEST, RELEASES, alike, key_of, oldest, parse_release


def clients(*requests: tuple[str, str, str, str, int], release: str = NEWEST) -> list[Client]:
    counted = Census()
    for client_id, software, address, api, version in requests:
        one = seen(
            client_id=client_id,
            software=(software, ""),
            address=address,
            api=key_of(api),
            version=version,
            when=10.0,
        )
        assert one is not None
        counted.add(one)
    return diagnose(counted, release)


@pytest.mark.parametrize(
    ("api", "version", "releases"),
    [
        ("Fetch", 3, RELEASES),
        ("Fetch", 4, ()),
        ("Produce", 2, RELEASES),
        ("Produce", 3, ()),
        ("ListOffsets", 0, RELEASES),
        ("OffsetCommit", 1, RELEASES),
        ("OffsetCommit", 2, ()),
        ("OffsetFetch", 0, RELEASES),
        ("JoinGroup", 1, ("4.0.0",)),
        ("JoinGroup", 2, ()),
        ("ShareFetch", 0, RELEASES[3:]),
        ("Metadata", 0, ()),
        ("ApiVersions", 0, ()),
    ],
)
def test_each_release_refuses_versions_that_its_definitions_lack(
    api: str, version: int, releases: tuple[str, ...]
) -> None:
    [client] = clients(("app", "", "a", api, version))
    refusing = tuple(release for release in RELEASES if client.refused_by(release))
    assert refusing == releases


def test_releases_that_refuse_the_same_are_one_group() -> None:
    groups = list(alike())
    assert [group[0] for group in groups] == ["4.0.0", "4.0.1", "4.1.0"]
    assert sum(groups, ()) == RELEASES
    assert all(oldest(group[0]) == oldest(group[-1]) for group in groups)


def test_a_release_is_known_by_its_name() -> None:
    assert parse_release("4.1") == "4.1.0"
    with pytest.raises(ValueError, match=r"one of 4\.0\.0"):
        parse_release("3.9.1")


def test_those_that_break_most_come_first() -> None:
    found = clients(
        ("fine", "", "a", "Fetch", 12),
        ("group", "", "a", "JoinGroup", 0),
        ("few", "", "a", "Fetch", 0),
        *(("many", "", "a", "Fetch", 1),) * 3,
        release="4.4.0",
    )
    assert [client.client_id for client in found] == ["many", "few", "group", "fine"]
    assert not found[2].refused_by("4.4.0")


def test_software_that_is_named_later_is_the_same_clients() -> None:
    [client] = clients(
        ("app", "", "10.0.0.2", "ApiVersions", 3),
        ("app", "librdkafka 1.4.2", "10.0.0.2", "ListOffsets", 0),
    )
    assert (client.software, client.requests) == ("librdkafka 1.4.2", 2)


def test_a_pinned_client_is_not_confused_with_another_of_the_same_client_id() -> None:
    broken, fine = clients(
        ("rdkafka", "librdkafka 2.3.0", "10.0.0.2", "Fetch", 11),
        ("rdkafka", "", "10.0.0.2", "Fetch", 1),
    )
    assert (broken.software, fine.software) == ("", "librdkafka 2.3.0")
    assert not fine.refused


def test_requests_between_brokers_belong_to_no_client() -> None:
    assert not clients(("0", "", "a", "UpdateMetadata", 0), ("1", "", "a", "WriteTxnMarkers", 0))


def test_clients_of_one_name_and_two_kinds_of_software_stay_apart() -> None:
    found = clients(
        ("app", "", "a", "Fetch", 1),
        ("app", "x 1", "a", "Fetch", 4),
        ("app", "y 1", "a", "Fetch", 4),
    )
    assert len(found) == 3


@pytest.mark.parametrize(
    ("client_id", "software", "api", "name", "what"),
    [
        ("x", "librdkafka 1.7.0", "ListOffsets", "librdkafka", "1.8 or later"),
        ("x", "confluent-kafka-python 2.3.0-rdkafka-2.3.0", "Fetch", "librdkafka", "take out"),
        ("rdkafka", "", "Fetch", "librdkafka", "take out"),
        ("sarama", "", "Fetch", "Sarama", "Config.Version"),
        ("worker123", "", "Produce", "lua-resty-kafka", "the gateway"),
        ("kafka-python-1.4.7", "", "Fetch", "kafka-python", "api_version"),
        ("broker-1-fetcher-0", "", "Fetch", "a broker", "inter.broker"),
        ("who", "", "Fetch", "", "consumer"),
        ("who", "", "Produce", "", "producer"),
        ("sarama", "", "JoinGroup", "", "skip 4.0.0"),
        ("who", "", "DescribeConfigs", "", "upgrade"),
    ],
)
def test_advice_is_found_by_software_else_by_name_else_by_request(
    client_id: str, software: str, api: str, name: str, what: str
) -> None:
    [client] = clients((client_id, software, "a", api, 0))
    assert client.name.startswith(name)
    assert bool(client.name) == bool(name)
    assert what in client.advice


def test_clients_beyond_the_limit_are_counted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "KEYS_MAX", 10)
    found = clients(*((f"client-{n}", "", "a", "Fetch", 1) for n in range(1000)))
    assert len(found) == 11
    assert found[0].client_id == "(others)"
    assert found[0].requests == 990


def test_a_known_client_is_counted_beyond_the_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "KEYS_MAX", 1)
    first, second = (("a", "", "1", "Fetch", 1), ("b", "", "1", "Fetch", 1))
    found = clients(first, second, first)
    assert {one.client_id: one.requests for one in found} == {"a": 2, census.OTHERS: 1}


def test_software_is_not_passed_on_where_the_address_is_unknown() -> None:
    """Two clients may have one client id."""
    found = clients(("a", "kgo", "", "Fetch", 12), ("a", "", "", "ApiVersions", 0))
    assert {(one.software, one.requests) for one in found} == {("kgo", 1), ("", 1)}
