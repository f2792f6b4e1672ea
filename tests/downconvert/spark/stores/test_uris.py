"""URIs of objects: what is sent to other machines, and what is shown.

No store is needed for these."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from downconvert.spark.stores import stores
from downconvert.spark.stores.store_errors import StoreError

ENDPOINTS = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "CLOUD_STORAGE_EMULATOR_ENDPOINT",
    "STORAGE_EMULATOR_HOST",
)


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINTS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("path", "is_stored", "local"),
    [
        ("/logs/a-0", False, "/logs/a-0"),
        ("logs://", True, "logs://"),
        ("s3a://bucket/logs", True, "s3a://bucket/logs"),
        ("file:/logs/a b", False, "/logs/a b"),
        ("file:///logs", False, "/logs"),
        ("FILE:///logs", False, "FILE:///logs"),
        ("/logs/s3://x", False, "/logs/s3://x"),
        ("s3:/bucket", False, "s3:/bucket"),
    ],
)
def test_a_uri_of_a_store_has_a_scheme_that_is_not_of_files(
    path: str, is_stored: bool, local: str
) -> None:
    assert stores.is_stored(path) == is_stored
    assert stores.local_path(path) == local


@pytest.mark.parametrize(
    ("given", "pinned"),
    [
        ("s3a://bucket/logs/", "s3://bucket/logs"),
        ("S3N://bucket", "s3://bucket"),
        ("gcs://bucket/a%20b//", "gs://bucket/a%20b"),
        (
            "abfss://box@account.dfs.core.windows.net/a",
            "abfss://box@account.dfs.core.windows.net/a",
        ),
        ("hdfs:///logs", "hdfs:///logs"),
        ("hdfs://user@host/logs", "hdfs://user@host/logs"),
        ("s3://bucket/logs?region=x", "s3://bucket/logs?region=x"),
        ("s3://bucket/a#b/c?region=x", "s3://bucket/a%23b/c?region=x"),
        (
            "s3://bucket/logs?endpoint_override=http://host:9/",
            "s3://bucket/logs?endpoint_override=host%3A9&scheme=http",
        ),
        (
            "s3://bucket/logs?endpoint_override=host:9&scheme=http",
            "s3://bucket/logs?endpoint_override=host%3A9&scheme=http",
        ),
    ],
)
def test_a_uri_has_one_form_for_all_machines(given: str, pinned: str) -> None:
    assert stores.pinned(given) == pinned
    assert stores.pinned(pinned) == pinned


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3://", "s3:// names no bucket"),
        ("gs:///logs", "gs:///logs names no bucket"),
        ("s3://key:secret@bucket/logs", "^s3://bucket/logs: credentials do not belong"),
        ("s3://key@bucket/logs", "credentials do not belong"),
        ("gs://key@bucket/logs", "credentials do not belong"),
        ("abfss://box:secret@account/logs", "^abfss://account/logs: credentials do not belong"),
    ],
)
def test_a_uri_without_a_bucket_or_with_credentials_is_refused(uri: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        stores.pinned(uri)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "names"), [("s3://bucket", ENDPOINTS[1::-1]), ("gs://bucket", ENDPOINTS[2:])]
)
def test_the_first_endpoint_of_the_environment_that_is_set_counts(
    monkeypatch: pytest.MonkeyPatch, uri: str, names: tuple[str, str]
) -> None:
    first, second = names
    monkeypatch.setenv(second, "http://second:2")
    monkeypatch.setenv(first, "")
    assert stores.pinned(uri) == f"{uri}?endpoint_override=second%3A2&scheme=http"
    monkeypatch.setenv(first, "first:1")
    assert stores.pinned(uri) == f"{uri}?endpoint_override=first%3A1"
    assert stores.pinned("abfss://box@account") == "abfss://box@account"


def test_shown_uris_have_plain_names_and_no_settings() -> None:
    uri = stores.below("s3://bucket/logs/?region=x&scheme=http", "a b", "c#d?.log")
    assert uri == "s3://bucket/logs/a%20b/c%23d%3F.log?region=x&scheme=http"
    assert stores.shown(uri) == "s3://bucket/logs/a b/c#d?.log"
    assert stores.shown("abfss://box@account/a") == "abfss://box@account/a"


def test_an_endpoint_that_a_uri_names_counts_more_than_the_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://environment:1/")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    named = stores.pinned("s3://bucket/logs?endpoint_override=http://named:2")
    assert named == "s3://bucket/logs?endpoint_override=named%3A2&scheme=http"
    given = stores.pinned("s3://bucket/logs", {"endpoint_override": "http://given:3"})
    assert given == "s3://bucket/logs?endpoint_override=given%3A3&scheme=http"
    found = stores.pinned("s3://bucket/logs")
    assert found == "s3://bucket/logs?endpoint_override=environment%3A1&scheme=https"


class FullDisk:
    """A file system with room for some bytes. As in Arrow, closing a file completes it."""

    def __init__(self, room: int) -> None:
        self._files = fs.LocalFileSystem()
        self._room = room

    def open_output_stream(self, path: str) -> "FullDisk":
        self._stream: Any = self._files.open_output_stream(path)
        return self

    def write(self, data: bytes) -> None:
        if len(data) > self._room:
            raise OSError("no space left")
        self._room -= len(data)
        self._stream.write(data)

    def delete_file(self, path: str) -> None:
        self._files.delete_file(path)

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


@pytest.mark.parametrize("room", [0, 4, 7, 8])
@pytest.mark.parametrize("from_file", [False, True])
def test_a_part_of_an_object_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, from_file: bool
) -> None:
    target, source = tmp_path / "object", tmp_path / "source"
    source.write_bytes(b"12345678")
    monkeypatch.setattr(stores, "WRITE_SIZE", 4)
    monkeypatch.setattr(stores, "opened", lambda _: (FullDisk(room), str(target)))
    data = source if from_file else source.read_bytes()
    if room < 8:
        with pytest.raises(StoreError, match="s3://bucket/object: no space left"):
            stores.write("s3://bucket/object", data)
        assert not target.exists()
    else:
        stores.write("s3://bucket/object", data)
        assert target.read_bytes() == b"12345678"


class Growing:
    """Reads ranges of an object that is longer at each read."""

    size = 0

    def read(self, _key: str, position: int, size: int, note: Callable[[int], None]) -> bytes:
        self.size += 10
        note(self.size)
        return bytes(self.size)[position : position + size]

    def read_into(
        self, key: str, target: memoryview, position: int, note: Callable[[int], None]
    ) -> int:
        data = self.read(key, position, len(target), note)
        target[: len(data)] = data
        return len(data)


def test_a_reader_knows_the_size_of_an_object_as_it_was_at_the_last_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    growing = Growing()
    monkeypatch.setattr(stores, "ranges_at", lambda _: (growing, "object"))
    reader = stores.ObjectReader("s3://bucket/object")
    assert reader.size is None
    assert reader.read(8, 5) == bytes(2)
    assert reader.size == 10
    assert reader.read_into(memoryview(bytearray(5)), 18) == 2
    assert reader.size == 20
