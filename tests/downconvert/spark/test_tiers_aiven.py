"""The segments that Aiven's plugin put into an S3 store, with those that its broker still had, hold
what a consumer read: each offset once. How the archive was made: aiven_plugin.py."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.spark.stores.data_keys import KeyFileError
from tests.corpus import DATA

from .aiven_plugin import PACKINGS, TOPIC
from .test_tiers_kafka import read

ARCHIVE: Final = DATA / "aiven.zip"


@pytest.fixture(params=PACKINGS)
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if request.param in ("encrypted", "both"):
        pytest.importorskip("Crypto")
    with zipfile.ZipFile(ARCHIVE) as archive:
        for name in archive.namelist():
            if name.startswith(f"{request.param}/"):
                archive.extract(name, tmp_path)
    return tmp_path / request.param


def expected(place: Path, isolation: str) -> list[tuple[Any, ...]]:
    """As `read` gives them."""

    def plain(text: str | None) -> bytes | None:
        return None if text is None else bytes.fromhex(text)

    return [
        (
            partition,
            offset,
            timestamp,
            plain(key),
            plain(value),
            [(n, plain(v)) for n, v in headers],
        )
        for partition, offset, timestamp, key, value, headers in json.loads(
            (place / f"{isolation}.json").read_bytes()
        )
    ]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_segments_that_the_plugin_wrote_have_the_records_of_a_consumer(
    place: Path, isolation: str
) -> None:
    keys = {"encryptionKeys": f"main={place / 'private.pem'}"}
    paths = [place / "logs", place / "tier"]
    wanted = expected(place, isolation)
    assert len(wanted) > 150
    for size in (10**6, 2000):
        found = read(paths, topics=TOPIC, isolation=isolation, maxPartitionBytes=size, **keys)
        assert found == wanted
    shutil.rmtree(place / "logs")
    remote = read(paths[1:], topics=TOPIC, **keys)
    whole = expected(place, "read_uncommitted")
    assert 0 < len(remote) < len(whole)
    assert remote == whole[: len(remote)]


def test_a_key_that_is_not_given_is_named(place: Path) -> None:
    if place.name in ("plain", "compressed"):
        assert read([place / "tier"])
        return
    with pytest.raises(KeyFileError, match="encrypted with the key 'main'"):
        read([place / "tier"], encryptionKeys="other=/none")
