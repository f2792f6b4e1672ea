"""Opens the file system of a URI: Arrow's if it has one, otherwise fsspec's.

Each machine finds credentials as the cloud's own tools do: environment, profile, role. The URI's
query has the other settings: `endpoint_override`, `region`, `scheme`, and `anonymous` to use no
credentials.

Not here: listing, reading and writing (stores.py)."""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pyarrow import PythonFile, __version__, fs

from .s3_ranges import CA_BUNDLE, S3Ranges, ranges_of
from .store_errors import StoreError, named_errors

# Azure's client aborts the process for other names. It does not support IPv6 addresses.
AUTHORITY: Final = re.compile(r"[\w.-]+(:(?P<port>\d{1,5}))?", re.ASCII)
PORT_MAX: Final = 65535
AZURE: Final = {"abfs", "abfss"}
HADOOP: Final = {"hdfs", "viewfs"}
# Amazon's checksum of the response takes half the time of a read. Batches have their own.
UNCHECKED: Final = ("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required")
ATTEMPTS: Final = 10
# The first version of pyarrow with certificate authorities in S3FileSystem.
WITH_AUTHORITIES: Final = 21
ATTEMPTS_NAME: Final = "AWS_MAX_ATTEMPTS"
# By default Google's client retries for a quarter of an hour, which is too long to wait.
RETRY_TIME: Final = timedelta(minutes=1)
# The names used by Azure's own command, and by other Python programs.
AZURE_KEYS: Final = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
AZURE_TOKEN: Final = "AZURE_STORAGE_SAS_TOKEN"
AZURE_HOST: Final = "dfs.core.windows.net"
NO_LIBHDFS: Final = (
    "Arrow reaches HDFS with Hadoop's libhdfs.so and a JVM, which are not found here: set "
    "HADOOP_HOME (or ARROW_LIBHDFS_DIR), JAVA_HOME and CLASSPATH, or name it "
    "webhdfs://host:9870/..., which goes through HTTP"
)
# Arrow tries once in a process. After that it only says that it has tried.
NOT_LOADED: Final = ("Unable to load lib", "Prior attempt to load libhdfs failed")
NEEDED: Final = {"webhdfs": "pip install 'lazy-downconvert[webhdfs]'"}
OF_FSSPEC: Final = "pip install fsspec, and the package that it names for it"
BEYOND: Final = 64 * 1024  # bytes that fsspec reads beyond the requested ones


def opened(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it. StoreError. ValueError: the URI's scheme is
    unknown."""
    parts = urlsplit(uri)
    files = file_system(parts.scheme, parts.netloc, parts.query, os.getpid())
    path = unquote(parts.path)
    if has_rename(parts.scheme):
        return files, path
    container = parts.netloc.partition("@")[0] if parts.scheme in AZURE else parts.netloc
    return files, f"{container}{path}"


def joined(parts: SplitResult) -> str:
    """The URI of these parts. Without a host, as in `hdfs:///logs`, `urlunsplit` would leave out
    the `//` that tells a URI from a path."""
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path}{query}"


def ranges_at(uri: str) -> tuple[S3Ranges, str] | None:
    """A client that reads ranges of an object faster than its file system, and the object's key.
    None: there is no such client. StoreError. ValueError: the URI's scheme is unknown."""
    parts = urlsplit(uri)
    if parts.scheme != "s3":
        return None
    ranges = _ranges(parts.netloc, parts.query, os.getpid())
    return None if ranges is None else (ranges, unquote(parts.path).lstrip("/"))


@cache
def _ranges(bucket: str, query: str, process: int) -> S3Ranges | None:
    files = file_system("s3", bucket, query, process)
    return ranges_of(bucket, dict(parse_qsl(query)), str(files.region))


def has_rename(scheme: str) -> bool:
    """Whether it is a file system of Hadoop: unfinished files are visible there, and rename is
    atomic."""
    return scheme in HADOOP or scheme == "webhdfs"


@cache
def file_system(scheme: str, netloc: str, query: str, _process: int) -> Any:
    """The file system of a URI without its path, opened once for each process, because connections
    do not survive a fork."""
    uri = joined(SplitResult(scheme, netloc, "/", query, ""))
    settings = dict(parse_qsl(query))
    with named_errors(f"{scheme}://{netloc}"):
        if scheme == "s3":
            return _s3(netloc, settings)
        if scheme == "gs":
            return fs.GcsFileSystem(
                anonymous=settings.get("anonymous") == "true",
                scheme=settings.get("scheme", "https"),
                endpoint_override=settings.get("endpoint_override"),
                retry_time_limit=RETRY_TIME,
            )
        if scheme in AZURE:
            return _azure(netloc, settings)
        if scheme in HADOOP:
            return _hadoop(uri)
        return _of_fsspec(scheme, netloc)


def _s3(bucket: str, settings: Mapping[str, str]) -> Any:
    os.environ.setdefault(*UNCHECKED)
    attempts = int(os.environ.get(ATTEMPTS_NAME) or ATTEMPTS)
    knows = int(__version__.partition(".")[0]) >= WITH_AUTHORITIES
    trusted = os.environ.get(CA_BUNDLE) if knows else None
    return fs.S3FileSystem(
        region=settings.get("region") or _region(bucket, settings),
        scheme=settings.get("scheme"),
        endpoint_override=settings.get("endpoint_override"),
        anonymous=settings.get("anonymous") == "true",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
        allow_delayed_open=True,  # one request writes a small object, so it is whole or absent
        **({"tls_ca_file_path": trusted} if trusted else {}),
    )


def _region(bucket: str, settings: Mapping[str, str]) -> str | None:
    """The region of an Amazon bucket, which S3 returns without credentials; None: use the
    environment's."""
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if named or "endpoint_override" in settings:
        return named
    try:
        return str(fs.resolve_s3_region(bucket))
    except OSError:
        return None


def _azure(netloc: str, settings: Mapping[str, str]) -> Any:
    """Azure's Blob storage. Arrow detects accounts with a hierarchical namespace."""
    _, _, host = netloc.partition("@")
    if not host:
        raise ValueError(
            f"abfss://{netloc} names no account: abfss://container@account.{AZURE_HOST}/folder"
        )
    _check_authority(host)
    account, _, rest = host.partition(".")
    given = {name: value for name in AZURE_KEYS if (value := os.environ.get(name))}
    key, token = next(iter(given.values()), None), os.environ.get(AZURE_TOKEN)
    options: dict[str, str | None] = {"account_key": key}
    if key is None and token:
        options = {"sas_token": token}
    if "endpoint_override" in settings:
        _check_authority(settings["endpoint_override"])
        for service in ("blob", "dfs"):
            options[f"{service}_storage_authority"] = settings["endpoint_override"]
            options[f"{service}_storage_scheme"] = settings.get("scheme", "https")
    elif rest and rest != AZURE_HOST:  # not the public cloud
        options["dfs_storage_authority"] = f".{rest}"
        options["blob_storage_authority"] = f".{rest.replace('dfs.', 'blob.', 1)}"
    return fs.AzureFileSystem(account, **options)


def _check_authority(text: str) -> None:
    found = AUTHORITY.fullmatch(text)
    if found is None or int(found["port"] or 0) > PORT_MAX:
        raise ValueError(f"{text!r} is not an endpoint: write host:port")


def _hadoop(uri: str) -> Any:
    try:
        if not urlsplit(uri).netloc:  # the file system of Hadoop's own configuration
            return fs.HadoopFileSystem("default")
        return fs.FileSystem.from_uri(uri)[0]
    except OSError as error:
        if any(words in str(error) for words in NOT_LOADED):
            raise StoreError(f"{uri.partition('?')[0]}: {NO_LIBHDFS}") from error
        raise


def _of_fsspec(scheme: str, netloc: str) -> Any:
    try:
        import fsspec

        host, _, port = netloc.partition(":")
        if scheme == "webhdfs":
            user = os.environ.get("HADOOP_USER_NAME")
            files = fsspec.filesystem(scheme, host=host, port=int(port or 9870), user=user)
        else:
            files = fsspec.filesystem(scheme)
    except ImportError as error:
        raise ValueError(
            f"{scheme}://{netloc}: Arrow does not know {scheme}, and fsspec, which may, is not "
            f"installed with what it needs ({error}): {NEEDED.get(scheme, OF_FSSPEC)}"
        ) from None
    return fs.PyFileSystem(_Handler(files))


class _Handler(fs.FSSpecHandler):  # type: ignore[misc]
    """As Arrow's, with two differences: an unreachable store is not reported as a missing file or
    folder, and WebHDFS reports modification times."""

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        try:
            self.fs.info(selector.base_dir)  # `find` returns nothing for any error
        except FileNotFoundError:
            return []
        return [
            _info(info["name"].rstrip("/"), info) for info in self._files_below(selector.base_dir)
        ]

    def _files_below(self, directory: str) -> Iterator[Mapping[str, Any]]:
        """The files below a directory. fsspec's own `find` leaves out a folder that it cannot
        list."""
        try:
            found = self.fs.ls(directory, detail=True)
        except FileNotFoundError:  # it was removed a moment ago
            return
        for info in found:
            if info["type"] != "directory":
                yield info
            elif info["name"].rstrip("/") != directory.rstrip("/"):
                yield from self._files_below(info["name"])

    def open_input_stream(self, path: str) -> Any:
        return PythonFile(self.fs.open(path, "rb", block_size=BEYOND), mode="r")

    open_input_file = open_input_stream


def _info(path: str, info: Mapping[str, Any]) -> Any:
    size = info["size"]
    if "modificationTime" in info:
        nanoseconds = info["modificationTime"] * 1_000_000  # from milliseconds
        return fs.FileInfo(path, fs.FileType.File, size=size, mtime_ns=nanoseconds)
    return fs.FileInfo(path, fs.FileType.File, size=size, mtime=info.get("mtime"))
