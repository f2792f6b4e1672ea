"""The definitions: every version that there has been, and the fields of each."""

import pytest

from downconvert.protocol.schemas import ApiKey, is_flexible, schema


def test_every_api_has_its_definitions() -> None:
    for api in ApiKey:
        assert schema(f"{api.name}Request").newest == schema(f"{api.name}Response").newest


def test_versions_that_are_gone_are_still_known() -> None:
    fields = {field.name: field for field in schema("ListOffsetsResponse").fields[1].fields}
    partition = {field.name: field.versions for field in fields["partitions"].fields}
    assert partition["old_style_offsets"] == range(1)
    assert partition["offset"].start == 1


@pytest.mark.parametrize(
    ("api", "version", "flexible"),
    [
        (ApiKey.Fetch, 11, False),
        (ApiKey.Fetch, 12, True),
        (ApiKey.ApiVersions, 2, False),
        (ApiKey.ApiVersions, 3, True),
        (ApiKey.SaslHandshake, 1, False),
    ],
)
def test_headers_are_flexible_where_bodies_are(api: ApiKey, version: int, flexible: bool) -> None:
    assert is_flexible(api, version) is flexible


def test_there_is_no_message_of_another_name() -> None:
    with pytest.raises(KeyError):
        schema("BrewCoffeeRequest")


def test_names_are_those_of_the_definitions_in_snake_case() -> None:
    names = [field.name for field in schema("FetchRequest").fields]
    assert names[2:6] == ["replica_state", "max_wait_ms", "min_bytes", "max_bytes"]
