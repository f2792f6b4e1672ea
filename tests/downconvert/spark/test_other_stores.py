"""Google's, Azure's and Hadoop's stores are read and written as directories are, with servers that
are programs of their own (tests/store_servers.py), and say the same of what fails.

Tasks run in this process: what Spark has to do with it is the same as for S3
(test_stored_jobs.py)."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from downconvert.spark.jobs.audit import audit
from downconvert.spark.jobs.audit.audit_segment import audit_segments
from downconvert.spark.jobs.convert import convert
from downconvert.spark.jobs.convert.convert import Settings
from downconvert.spark.jobs.convert.manifest import MANIFEST, parse
from downconvert.spark.jobs.export import export
from downconvert.spark.jobs.export.export_manifest import FOLDER
from downconvert.spark.jobs.export.export_stored_notes import BEGUN, StoredNotes
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.stores import file_systems, stores
from downconvert.spark.stores.store_errors import ForbiddenError, StoreError, ThrottledError
from downconvert.spark.stream.stream import SegmentStreamReader
from downconvert.storage.names import Kind, file_name
from records import Codec
from tests import store_servers
from tests.downconvert.storage.logs import batch, indexed_segment, segment
from tests.store_servers import Store

from .in_process import SESSION, without_spark
from .reading import rows
from .refusing_store import refusing
from .stream.test_follow import read as in_batch

# The servers are built the first time. Tests of S3's protocol are in each run of CI.
pytestmark = [pytest.mark.others, pytest.mark.more, pytest.mark.timeout(900)]

DAY: Final = 86_400_000  # milliseconds
LOST: Final = f"part-{0:032}-000000.parquet"
KINDS: Final = ("gs", "abfss", "webhdfs")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's directory of three segments."""
    directory = tmp_path_factory.mktemp("logs")
    (directory / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=one\n")
    batches = [batch(offset, size=1000, timestamp=DAY * (offset // 50)) for offset in range(150)]
    indexed_segment(directory / "orders-0", 0, *batches[:90], interval=4096)
    indexed_segment(directory / "orders-0", 90, *batches[90:], interval=4096)
    segment(directory / "old-1", 0, batch(0, magic=0), batch(1, 2, codec=Codec.GZIP, magic=1))
    return directory


@pytest.fixture(scope="module", params=KINDS)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, logs: Path
) -> Iterator[Store]:
    """A store that has a copy of the logs in its folder `logs`."""
    kind = request.param
    absent = store_servers.missing(kind)
    if absent:
        pytest.skip(f"not here: {', '.join(absent)}")
    place = tmp_path_factory.mktemp(kind)
    with store_servers.running(kind, place) as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        if kind == "abfss":
            files, _ = file_systems.opened(stores.pinned(found.uri("x")))
            files.create_dir("bucket")
        for path in filter(Path.is_file, logs.rglob("*")):
            names = path.relative_to(logs).parts
            stores.write(stores.below(stores.pinned(found.uri("logs")), *names), path)
        yield found
    file_systems.file_system.cache_clear()


@pytest.mark.parametrize(
    "options",
    [
        {"maxPartitionBytes": 30_000},
        {"startingOffsets": '{"orders":{"0":75}}', "endingOffsets": '{"orders":{"0":101}}'},
    ],
)
def test_a_stored_log_is_read_like_a_mounted_one(
    store: Store, logs: Path, options: dict[str, Any]
) -> None:
    def found(path: Path | str) -> list[dict[str, Any]]:
        return [row for row in rows(path, **options) if row.pop("segment", None) is None]

    assert found(store.uri("logs")) == found(logs)


def test_objects_are_written_whole_listed_and_removed(store: Store, tmp_path: Path) -> None:
    uri = stores.below(stores.pinned(store.uri("written")), "a b", "c#d.log")
    stores.write(uri, b"first")
    assert stores.read(uri) == b"first"
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 50_000)  # of several parts
    stores.write(uri, large)
    (found,) = stores.listed(stores.pinned(store.uri("written")))
    assert (found.uri, found.size) == (uri, 12_800_000)
    assert found.modified > 0
    reader = stores.ObjectReader(uri)
    assert reader.read(250, 10) == bytes(range(250, 256)) + bytes(range(4))
    assert reader.read_into(memoryview(bytearray(10)), 12_799_995) == 5
    reader.close()
    stores.remove([uri, uri])
    with pytest.raises(FileNotFoundError, match="no such object"):
        stores.read(uri)


def test_a_stream_follows_it(store: Store, tmp_path: Path) -> None:
    def put(*batches: bytes) -> None:
        made = segment(tmp_path / "a-0", 0, *batches)
        uri = stores.pinned(store.uri("followed"))
        stores.write(stores.below(uri, "a-0", made.path().name), made.path())

    put(batch(0, 1))
    given = {"path": store.uri("followed"), "startingoffsets": "earliest"}
    options = Options.parse(given, streaming=True)
    source = SegmentStreamReader(options, schema_of(options))
    start = source.initialOffset()
    first = source.latestOffset(start)
    assert in_batch(source, start, first) == ["a-0:0", "a-0:1"]
    assert source.latestOffset(first) == first
    put(batch(0, 1), batch(2))  # a longer one in its place
    second = source.latestOffset(first)
    assert in_batch(source, first, second) == ["a-0:2"]


def test_jobs_do_what_they_do_in_directories(
    store: Store, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def audited(path: str) -> list[dict[str, Any]]:
        without = {"v0", "v1"}  # what it costs
        return [
            {name: value for name, value in row.items() if name not in without}
            for task in audit.plan([path], (), everything=False)
            for row in audit_segments(task)
        ]

    without_spark(monkeypatch)
    assert audited(store.uri("logs")) == audited(str(logs))
    target = store.uri("converted")
    for _ in range(2):
        convert.run(SESSION, [store.uri("logs")], target, Settings(to_magic=1))
    folder = stores.pinned(target)
    entries = [parse(line) for line in stores.read(stores.below(folder, MANIFEST)).splitlines()]
    assert [entry.status for entry in entries] == ["converted"] * 3
    convert.run(SESSION, [str(logs)], str(tmp_path / "here"), Settings(to_magic=1))
    for name, base in (("old-1", 0), ("orders-0", 0), ("orders-0", 90)):
        log = file_name(base, Kind.LOG)
        made = stores.read(stores.below(folder, name, log))
        assert made == (tmp_path / "here" / name / log).read_bytes()
    lake = store.uri("lake")
    for _ in range(2):
        export.run(SESSION, [store.uri("logs")], lake)
    lost = stores.below(stores.pinned(lake), "topic=old", "date=1970-01-01", LOST)
    stores.write(lost, b"of a run that died")
    stores.write(stores.below(stores.pinned(lake), FOLDER, f"{0:032}{BEGUN}"), b"")
    notes = StoredNotes(stores.pinned(lake))
    notes.remove_lost()
    offsets = []
    for name in notes.read("read_uncommitted").files:
        copy = tmp_path / "copy.parquet"
        copy.write_bytes(stores.read(stores.below(stores.pinned(lake), *name.split("/"))))
        offsets += pq.read_table(copy, partitioning=None)["offset"].to_pylist()
    assert sorted(offsets) == sorted([*range(150), 0, 1, 2])
    there = {one.uri for one in stores.listed(stores.pinned(lake)) if ".parquet" in one.uri}
    assert len(there) == len(notes.read("read_uncommitted").files)


def test_errors_say_which_object_and_why(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="no such object"):
        rows(store.uri("nowhere"))
    if store.root.startswith("gs"):
        return  # the server asks nobody who they are
    if store.root.startswith("webhdfs"):
        with pytest.raises(ForbiddenError, match="/closed/x: forbidden"):
            stores.write(stores.pinned(store.uri("closed", "x")), b"")
        return
    monkeypatch.setenv("AZURE_STORAGE_KEY", "bm90IGl0")
    file_systems.file_system.cache_clear()
    with pytest.raises(ForbiddenError, match="/logs: forbidden"):
        rows(store.uri("logs"))
    file_systems.file_system.cache_clear()


URIS: Final = {
    "gs": "gs://bucket/logs?endpoint_override=http://{}&anonymous=true",
    "abfss": "abfss://bucket@account/logs?endpoint_override=http://{}",
    "webhdfs": "webhdfs://{}/logs",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("403 Forbidden", ForbiddenError),
        ("429 Too Many Requests", ThrottledError),
        ("503 Service Unavailable", ThrottledError),
        ("500 Internal Server Error", StoreError),
    ],
)
def test_a_refusal_of_a_store_is_one_line(
    monkeypatch: pytest.MonkeyPatch, kind: str, status: str, expected: type[Exception]
) -> None:
    if kind == "webhdfs" and store_servers.missing(kind):
        pytest.skip("fsspec is not here")
    monkeypatch.setenv("AZURE_STORAGE_KEY", store_servers.KEY)
    monkeypatch.setattr(file_systems, "RETRY_TIME", timedelta(seconds=1))
    file_systems.file_system.cache_clear()
    head = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nretry-after-ms: 1\r\nConnection: close\r\n"
    with (
        refusing(f"{head}\r\n".encode()) as (address, _),
        pytest.raises(expected) as raised,
    ):
        stores.listed(stores.pinned(URIS[kind].format(address)))
    assert type(raised.value) is expected
    assert str(raised.value).startswith(f"{kind}://")
    assert "\n" not in str(raised.value)
    file_systems.file_system.cache_clear()


def test_a_package_to_install_for_a_scheme_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ValueError, match=r"pip install 'lazy-downconvert\[webhdfs\]'"):
        stores.listed(stores.pinned("webhdfs://host:9870/logs"))
    with pytest.raises(ValueError, match="pip install fsspec, and the package"):
        stores.listed(stores.pinned("oci://bucket@tenant/logs"))
    file_systems.file_system.cache_clear()


def test_a_missing_package_for_hdfs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(StoreError, match="webhdfs://host:9870"):
        stores.listed(stores.pinned("hdfs://127.0.0.1:1/logs"))
    with pytest.raises(ValueError, match="names no account"):
        stores.listed(stores.pinned("abfss://bucket/logs"))
    with pytest.raises(ValueError, match="is not an endpoint"):  # Arrow would end the process
        stores.listed(stores.pinned("abfss://bucket@account/logs?endpoint_override=a/b:1"))
