"""A URI and the environment say which client opens a store, and with which settings.

The clients are real ones; what they were opened with is what they hand to another process."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pyarrow import fs

from downconvert.spark.stores import file_systems, stores
from downconvert.spark.stores.file_systems import AZURE_KEYS, AZURE_TOKEN, opened, ranges_at
from downconvert.spark.stores.s3_ranges import CA_BUNDLE
from downconvert.spark.stores.store_errors import StoreError
from tests.downconvert.spark.refusing_store import refusing

KEY, OTHER_KEY, TOKEN = "a2V5", "b3RoZXI=", "sv=1&sig=x"
ANONYMOUS = "anonymous=true&endpoint_override=127.0.0.1:1&scheme=http"


@pytest.fixture(autouse=True)
def _unopened(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No store was opened before, and the environment says nothing of any."""
    names = (*AZURE_KEYS, AZURE_TOKEN, CA_BUNDLE, "AWS_REGION", "AWS_DEFAULT_REGION")
    for name in (*names, "AWS_MAX_ATTEMPTS", "HADOOP_USER_NAME"):
        monkeypatch.delenv(name, raising=False)
    file_systems.file_system.cache_clear()
    yield
    file_systems.file_system.cache_clear()


def settings(uri: str) -> dict[str, Any]:
    """The arguments with which the client of a URI was opened."""
    found: dict[str, Any] = opened(uri)[0].__reduce__()[1][0]
    return found


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("abfss://box@account.dfs.core.windows.net/a%20b/c", "box/a b/c"),
        (f"gs://box/a%20b?{ANONYMOUS}", "box/a b"),
        (f"s3://box/a%23b?{ANONYMOUS}", "box/a#b"),
        ("memory://box/a%20b", "box/a b"),
        ("webhdfs://host:1/a%20b", "/a b"),
    ],
)
def test_a_path_begins_with_the_container_unless_the_store_has_none(uri: str, path: str) -> None:
    assert opened(uri)[1] == path


def test_a_faster_client_gets_the_key_of_an_s3_object() -> None:
    found = ranges_at(f"s3://box/a%20b/c?{ANONYMOUS}")
    assert found is not None
    assert (found[1], found[0].prefix, found[0].endpoint) == ("a b/c", "/box", "127.0.0.1:1")
    assert ranges_at(f"gs://box/a?{ANONYMOUS}") is None


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [("hdfs", True), ("viewfs", True), ("webhdfs", True), ("s3", False), ("memory", False)],
)
def test_only_hadoops_file_systems_have_rename(scheme: str, expected: bool) -> None:
    assert file_systems.has_rename(scheme) is expected


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_the_query_has_the_settings_of_a_client(scheme: str) -> None:
    found = settings(f"{scheme}://box/a?{ANONYMOUS}&region=eu-west-9")
    wanted = {"anonymous": True, "endpoint_override": "127.0.0.1:1", "scheme": "http"}
    wanted |= {"region": "eu-west-9"} if scheme == "s3" else {}
    assert {name: found[name] for name in wanted} == wanted
    secure = settings(f"{scheme}://box/a?endpoint_override=127.0.0.1:1")
    assert (secure["anonymous"], secure["scheme"]) == (False, "https")


def test_the_region_of_a_bucket_is_asked_of_amazon_if_nothing_says_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def resolved(bucket: str) -> str:
        asked.append(bucket)
        if bucket == "unknown":
            raise OSError("no such bucket")
        return "eu-north-7"

    monkeypatch.setattr(fs, "resolve_s3_region", resolved)
    assert settings("s3://ours/a?anonymous=true")["region"] == "eu-north-7"
    assert settings("s3://unknown/a?anonymous=true&region=eu-west-9")["region"] == "eu-west-9"
    assert settings(f"s3://elsewhere/a?{ANONYMOUS}")["region"] != "eu-north-7"
    assert settings("s3://unknown/a?anonymous=true")["region"] != "eu-north-7"
    assert asked == ["ours", "unknown"]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-one-1")
    assert settings("s3://second/a?anonymous=true")["region"] == "ap-one-1"
    monkeypatch.setenv("AWS_REGION", "ap-two-2")
    assert settings("s3://third/a?anonymous=true")["region"] == "ap-two-2"
    assert settings(f"s3://fourth/a?{ANONYMOUS}")["region"] == "ap-two-2"
    assert asked == ["ours", "unknown"]


@pytest.mark.parametrize(("version", "expected"), [("20.0.0", False), ("21.0.0", True)])
def test_authorities_go_to_versions_of_arrow_that_take_them(
    monkeypatch: pytest.MonkeyPatch, version: str, expected: bool
) -> None:
    monkeypatch.setattr(file_systems, "__version__", version)
    monkeypatch.setenv(CA_BUNDLE, "/ours/ca.pem")
    found = settings(f"s3://box/a?{ANONYMOUS}")
    assert (found.get("tls_ca_file_path") == "/ours/ca.pem") is expected


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_store_is_asked_as_often_as_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", str(attempts))
    response = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with refusing(response) as (address, requests):
        uri = f"s3://box/a?anonymous=true&scheme=http&endpoint_override={address}"
        with pytest.raises(StoreError):
            stores.read(uri)
    assert len(requests) == attempts


@pytest.mark.parametrize(
    ("given", "key", "token"),
    [
        ({}, "", ""),
        ({"AZURE_STORAGE_ACCOUNT_KEY": KEY}, KEY, ""),
        ({"AZURE_STORAGE_KEY": KEY, "AZURE_STORAGE_ACCOUNT_KEY": OTHER_KEY}, KEY, ""),
        ({AZURE_TOKEN: TOKEN}, "", TOKEN),
        ({AZURE_TOKEN: TOKEN, "AZURE_STORAGE_KEY": KEY}, KEY, ""),
    ],
)
def test_a_key_of_azure_counts_more_than_a_token(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], key: str, token: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = settings("abfss://box@account.dfs.core.windows.net/a")
    assert found["account_name"] == "account"
    assert (found["account_key"], found["sas_token"].lstrip("?")) == (key, token)


@pytest.mark.parametrize(
    ("host", "query", "blob", "dfs", "scheme"),
    [
        ("", "", ".blob.core.windows.net", ".dfs.core.windows.net", "https"),
        (
            ".dfs.core.windows.net",
            "",
            ".blob.core.windows.net",
            ".dfs.core.windows.net",
            "https",
        ),
        (".dfs.core.dfs.cn", "", ".blob.core.dfs.cn", ".dfs.core.dfs.cn", "https"),
        ("", "endpoint_override=h-1.x:65535", "h-1.x:65535", "h-1.x:65535", "https"),
        (
            ".dfs.core.dfs.cn",
            "endpoint_override=host:7&scheme=http",
            "host:7",
            "host:7",
            "http",
        ),
    ],
)
def test_azures_two_services_have_an_address_each(
    host: str, query: str, blob: str, dfs: str, scheme: str
) -> None:
    found = settings(f"abfss://box@account{host}/a?{query}")
    assert (found["blob_storage_authority"], found["dfs_storage_authority"]) == (blob, dfs)
    assert (found["blob_storage_scheme"], found["dfs_storage_scheme"]) == (scheme, scheme)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://host:7",
        "host:7/path",
        "host:7 ",
        "host:x",
        ":7",
        "[::1]:7",
        "host:65536",
        "host:\u0661",
    ],
)
def test_an_endpoint_of_azure_that_would_end_the_process_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="is not an endpoint: write host:port"):
        opened(f"abfss://box@account/a?endpoint_override={endpoint}")


@pytest.mark.parametrize("host", ["account.dfs.core.dfs.cn:65536", "account:123456", "[::1]:7"])
def test_a_host_of_azure_that_would_end_the_process_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="is not an endpoint: write host:port"):
        opened(f"abfss://box@{host}/a")


def test_a_container_without_an_account_is_refused() -> None:
    with pytest.raises(ValueError, match="abfss://box names no account"):
        opened("abfss://box/a")


def test_hadoop_without_its_library_says_what_is_needed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    for _ in range(2):  # Arrow itself says it once in a process
        with pytest.raises(StoreError, match=r"^hdfs://host:1/: Arrow reaches HDFS .*CLASSPATH"):
            opened("hdfs://host:1/a?b=c")


def test_a_package_that_fsspec_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", None)
    with pytest.raises(
        ValueError, match=r"sftp://host: Arrow does not know sftp.*pip install fssp"
    ):
        opened("sftp://host/a")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ValueError, match=r"pip install 'lazy-downconvert\[webhdfs\]'"):
        opened("webhdfs://host/a")


def test_webhdfs_has_a_port_and_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "ours")
    for netloc, port in (("host-a", 9870), ("host-b:14000", 14000)):
        found = opened(f"webhdfs://{netloc}/a")[0].handler.fs.storage_options
        assert found == {"host": netloc.partition(":")[0], "port": port, "user": "ours"}


class Hadoop:
    """A server of WebHDFS with the files `/logs/a` and `/logs/b/c`. `statuses`: of the responses
    for these paths."""

    def __init__(self) -> None:
        self.statuses: dict[str, int] = {}
        self.address = ""

    def response(self, path: str, operation: str) -> tuple[int, dict[str, Any]]:
        status = self.statuses.get(path, 200)
        if status not in (200, 404):
            error = {"exception": "StandbyException", "message": "not now"}
            return status, {"RemoteException": error}
        listings = {
            "/logs": [_status("a", size=5), _status("b")],
            "/logs/b": [_status("c", size=7)],
            "/logs/a": [_status("", size=5)],
        }
        if operation == "LISTSTATUS" and path in listings and status == 200:
            return 200, {"FileStatuses": {"FileStatus": listings[path]}}
        found = {"/logs": _status(""), "/logs/b": _status(""), "/logs/a": _status("", size=5)}
        if operation == "GETFILESTATUS" and path in found and status == 200:
            return 200, {"FileStatus": found[path]}
        error = {"exception": "FileNotFoundException", "message": f"{path} is not there"}
        return 404, {"RemoteException": error}


def _status(name: str, size: int | None = None) -> dict[str, Any]:
    """WebHDFS's status of a file, or of a folder if it has no size."""
    kind = "DIRECTORY" if size is None else "FILE"
    return {
        "pathSuffix": name,
        "type": kind,
        "length": size or 0,
        "modificationTime": 1234 + (size or 0),
    }


@pytest.fixture
def hadoop() -> Iterator[Hadoop]:
    with serving() as found:
        yield found


@contextmanager
def serving() -> Iterator[Hadoop]:
    found = Hadoop()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            path = "/" + asked.path.removeprefix("/webhdfs/v1").strip("/")
            status, response = found.response(path, parse_qs(asked.query)["op"][0])
            body = json.dumps(response).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def test_files_of_webhdfs_have_the_time_of_their_last_change(hadoop: Hadoop) -> None:
    uri = f"webhdfs://{hadoop.address}/logs"
    assert stores.listed(uri) == [
        (f"{uri}/a", 5, 1_239_000_000),
        (f"{uri}/b/c", 7, 1_241_000_000),
    ]
    assert stores.listed(f"{uri}/a") == [(f"{uri}/a", 5, 1_239_000_000)]


def test_a_missing_folder_is_reported(hadoop: Hadoop) -> None:
    with pytest.raises(FileNotFoundError):
        stores.listed(f"webhdfs://{hadoop.address}/others")


def test_a_folder_that_is_removed_during_the_listing_is_left_out(hadoop: Hadoop) -> None:
    hadoop.statuses["/logs/b"] = 404
    uri = f"webhdfs://{hadoop.address}/logs"
    assert [found.uri for found in stores.listed(uri)] == [f"{uri}/a"]


@pytest.mark.parametrize("path", ["/logs", "/logs/b"])
@pytest.mark.parametrize("status", [401, 403, 500, 502, 503])
def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    hadoop: Hadoop, path: str, status: int
) -> None:
    hadoop.statuses[path] = status
    with pytest.raises(StoreError, match=f"webhdfs://{hadoop.address}/logs: "):
        stores.listed(f"webhdfs://{hadoop.address}/logs")
