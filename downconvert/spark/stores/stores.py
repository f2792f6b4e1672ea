"""Object stores and other file systems that are not mounted: listing, reading ranges, writing.

A path there is a URI: `s3://bucket/folder`, `s3a://`, `gs://`, `abfss://container@account/...`,
`hdfs://host/...`. A URI does not hold credentials. Other settings are in its query
(`?region=eu-central-1&endpoint_override=host:9000&scheme=http`). An endpoint in the driver's
environment is added to each URI that is sent to the tasks.

Clients retry requests that fail temporarily. Final failures raise one of the errors in
store_errors.py.

Not here: which client reads a store (file_systems.py), what is read (blobs.py), which objects are
logs (stored_trees.py)."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from pyarrow import fs

from .file_systems import has_rename, joined, opened, ranges_at
from .store_errors import ForbiddenError, named_errors

URI: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
S3: Final = {"s3", "s3a", "s3n"}
ALIASES: Final = {"s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
# Environment variables in which the clouds' own tools look for an endpoint.
ENDPOINTS: Final = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "gs": ("CLOUD_STORAGE_EMULATOR_ENDPOINT", "STORAGE_EMULATOR_HOST"),
}
WRITE_SIZE: Final = 8 * 1024 * 1024  # bytes at a time; the size of a part in S3


class Stored(NamedTuple):
    """An object: its URI, its size in bytes, and when it was written, in nanoseconds since the
    epoch."""

    uri: str
    size: int
    modified: int


def is_stored(path: str) -> bool:
    """Whether a path is a URI of a store, not a path of this machine."""
    found = URI.match(path)
    return found is not None and found[1].lower() != "file"


def local_path(path: str) -> str:
    """A path of this machine. Accepts `file:/...` and `file:///...`, as Spark does."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return path


def pinned(uri: str, settings: Mapping[str, str] | None = None) -> str:
    """A URI with all settings that other machines need, except credentials.

    `settings` are added to its query. ValueError: it holds credentials, or names no bucket."""
    parts = urlsplit(uri.replace("#", "%23"))  # a name may contain "#", as in Hadoop's paths
    scheme = ALIASES.get(parts.scheme.lower(), parts.scheme.lower())
    if scheme != "hdfs" and not parts.netloc:
        raise ValueError(f"{uri} names no bucket")
    if "@" in parts.netloc and (scheme in ("s3", "gs") or ":" in parts.netloc.partition("@")[0]):
        raise ValueError(
            f"{shown(uri)}: credentials do not belong into a path, where logs and plans show them. "
            "They are taken from the environment, a profile or the machine's role"
        )
    query = dict(parse_qsl(parts.query)) | dict(settings or {})
    names = ENDPOINTS.get(scheme, ())
    endpoint = next((os.environ[name] for name in names if os.environ.get(name)), None)
    if endpoint and "endpoint_override" not in query:
        query["endpoint_override"] = endpoint
    if "://" in query.get("endpoint_override", ""):
        query["scheme"], _, query["endpoint_override"] = query["endpoint_override"].partition("://")
        query["endpoint_override"] = query["endpoint_override"].rstrip("/")
    path = parts.path.rstrip("/")
    return joined(SplitResult(scheme, parts.netloc, path, urlencode(query), ""))


def shown(uri: str) -> str:
    """A URI for messages: without its query and anything that might be a credential."""
    parts = urlsplit(uri)
    account = parts.netloc.partition("@")[0]
    netloc = parts.netloc if ":" not in account else parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{netloc}{unquote(parts.path)}"


def below(uri: str, *names: str) -> str:
    """The URI of names below another URI."""
    parts = urlsplit(uri)
    path = "/".join([parts.path.rstrip("/"), *(quote(name) for name in names)])
    return joined(parts._replace(path=path))


def listed(uri: str) -> list[Stored]:
    """All objects below a URI, including those in folders, by their names; or the object of that
    name.

    FileNotFoundError: there is none."""
    files, path = opened(uri)
    with named_errors(shown(uri)):
        selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
        found = [info for info in files.get_file_info(selector) if info.is_file]
        if not found:
            info = files.get_file_info(path)
            if info.type == fs.FileType.NotFound:
                raise FileNotFoundError(path)
            found = [info] if info.is_file else []
    base = urlsplit(uri)
    return sorted(
        Stored(_uri_of(base, path, info.path), info.size, info.mtime_ns or 0) for info in found
    )


def present(folder: str, names: Iterable[str]) -> list[Stored]:
    """The objects with these names in a folder. None if the folder is forbidden: a user may be
    allowed to read only the folders below it. StoreError."""
    uris = [below(folder, name) for name in names]
    files, _ = opened(folder)
    with suppress(ForbiddenError), named_errors(shown(folder)):
        found = files.get_file_info([opened(uri)[1] for uri in uris])
        return [
            Stored(uri, info.size, info.mtime_ns or 0)
            for uri, info in zip(uris, found, strict=True)
            if info.is_file
        ]
    return []


def _uri_of(base: SplitResult, path: str, found: str) -> str:
    rest = found.lstrip("/")[len(path.lstrip("/")) :]  # some file systems put "/" before a name
    return joined(base._replace(path=base.path + quote(rest)))


class ObjectReader:
    """An open object. Several threads may read it. `size`: of the whole object, from the response
    to the last read; None: not known, as for files of HDFS, which grow in place."""

    size: int | None = None

    def __init__(self, uri: str) -> None:
        """FileNotFoundError: it is gone. (The first read may raise this instead.) StoreError: it
        cannot be read."""
        self._uri = uri
        self._name = shown(uri)
        self._file: Any = None
        self._ranges = ranges_at(uri)
        if self._ranges is None:
            self._file = self._opened()

    def read(self, position: int, size: int) -> bytes:
        """The bytes there; fewer only at the end. FileNotFoundError, StoreError."""
        if self._ranges is not None:
            ranges, key = self._ranges
            found = ranges.read(key, position, size, self._note_size)
            if found is not None:
                return found
        with named_errors(self._name):
            return bytes(self._opened().read_at(size, position))

    def read_into(self, target: memoryview, position: int) -> int:
        """Fills `target` from a position on, as far as there are bytes; returns how many.
        FileNotFoundError, StoreError."""
        if self._ranges is not None:
            ranges, key = self._ranges
            found = ranges.read_into(key, target, position, self._note_size)
            if found is not None:
                return found
        with named_errors(self._name):
            return int(self._opened().get_stream(position, len(target)).readinto(target))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _opened(self) -> Any:
        if self._file is None:
            files, path = opened(self._uri)
            with named_errors(self._name):
                self._file = files.open_input_file(path)
                if not has_rename(urlsplit(self._uri).scheme):
                    self._note_size(self._file.size())
        return self._file

    def _note_size(self, size: int) -> None:
        self.size = size


def read(uri: str) -> bytes:
    """The whole content of a small object."""
    return b"".join(readable(uri))


def write(uri: str, data: bytes | Path) -> None:
    """Writes an object from bytes or a file. Replaces an existing one atomically.

    Meanwhile readers see no object, or the previous one. If the process dies, nothing becomes
    visible."""
    files, path = opened(uri)
    with named_errors(shown(uri)):
        if has_rename(urlsplit(uri).scheme):
            folder, _, name = path.rpartition("/")
            temporary = f"{folder}/{part_name(name)}"
            _copied(files, temporary, data)
            with suppress(FileNotFoundError):
                files.delete_file(path)
            files.move(temporary, path)
        else:
            _copied(files, path, data)


def part_name(name: str) -> str:
    """The name under which a file of Hadoop is written. Readers of Parquet skip this prefix.

    If a file exists only under this name, it is complete, and its writer was killed before the
    rename."""
    return f".{name}.part"


def move(uri: str, to: str) -> None:
    """Renames an object. No other object may have the new name."""
    files, path = opened(uri)
    with named_errors(shown(uri)):
        files.move(path, opened(to)[1])


def _copied(files: Any, path: str, data: bytes | Path) -> None:
    source = data.open("rb") if isinstance(data, Path) else BytesIO(data)
    try:
        with source, files.open_output_stream(path) as target:
            while piece := source.read(WRITE_SIZE):
                target.write(piece)
    except BaseException:
        with suppress(OSError):  # closing completes the object in Arrow, even if data is missing
            files.delete_file(path)
        raise


def remove(uris: Iterable[str]) -> None:
    """Removes objects. Missing ones are ignored."""
    for uri in uris:
        files, path = opened(uri)
        with named_errors(shown(uri)), suppress(FileNotFoundError):
            files.delete_file(path)


def readable(uri: str) -> Iterator[bytes]:
    """The bytes of an object, some MiB at a time."""
    files, path = opened(uri)
    with named_errors(shown(uri)), files.open_input_stream(path) as stream:
        while piece := stream.read(WRITE_SIZE):
            yield bytes(piece)
