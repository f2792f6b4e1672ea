"""Objects are written whole or not at all, if the source fails too. The store is in memory.

Not here: a store of its own process (test_stores.py)."""

import io
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.stores import stores


class Failing(io.BytesIO):
    """A source whose disk fails after the first piece."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError("the disk fails")
        return super().read(size)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}/a.log"


def test_a_source_that_fails_leaves_no_object(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def source(data: bytes) -> Any:
        return Failing(data)

    monkeypatch.setattr(stores, "BytesIO", source)
    with pytest.raises(OSError, match="the disk fails"):
        stores.write(uri, bytes(10))
    with pytest.raises(FileNotFoundError):
        stores.read(uri)


def test_an_object_is_replaced_and_removed(uri: str, tmp_path: Path) -> None:
    stores.write(uri, b"first")
    (tmp_path / "second").write_bytes(b"second")
    stores.write(uri, tmp_path / "second")
    assert stores.read(uri) == b"".join(stores.readable(uri)) == b"second"
    assert [(one.uri, one.size) for one in stores.listed(uri)] == [(uri, 6)]
    stores.remove([uri, uri])
    with pytest.raises(FileNotFoundError):
        stores.listed(uri)
