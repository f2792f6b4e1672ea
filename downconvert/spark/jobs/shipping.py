"""The package as a zip for Spark's executors, with its compiled kernel.

An archive (`--archives`) is unpacked beside the executor, and found there by a relative PYTHONPATH.
Python may also import from the zip itself (`--py-files`, or over Spark Connect
`addArtifacts(pyfile=True)`): then records/zipped.py loads the kernel. The package's dependencies
(Arrow, the codecs) must be in the executors' Python. Those with compiled parts have to be installed
there, or shipped as an environment.

Not here: the session (session.py)."""

import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from records.paths import whole_file

PACKAGES: Final = ("records", "downconvert", "simulator", "pyspark_kafka_segments")
SUFFIXES: Final = {".py", ".so", ".typed"}
FOLDER: Final = "lazy-downconvert"  # beside the executor, where the archive is unpacked
# The earliest time that a zip can have. All files get it, so the same files give the same archive.
EARLIEST: Final = (1980, 1, 1, 0, 0, 0)


def write_archive(path: Path) -> Path:
    """Writes the running package atomically. The same package gives the same bytes.

    The kernel is this machine's: executors need the same system and processor. FileExistsError: as
    `whole_file`."""
    with whole_file(path) as target, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in _files():
            info = zipfile.ZipInfo(name, EARLIEST)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    return path


def settings_for(archive: Path) -> dict[str, str]:
    """The settings with which executors find the package in an archive."""
    return {
        "spark.archives": f"{archive.absolute().as_uri()}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": FOLDER,
    }


def _files() -> Iterator[tuple[str, Path]]:
    """The names in the archive, and the files. Missing packages are left out."""
    for package in PACKAGES:
        spec = find_spec(package)
        for location in (spec.submodule_search_locations or ()) if spec else ():
            folder = Path(location)
            for file in sorted(folder.rglob("*")):
                if file.suffix in SUFFIXES and "__pycache__" not in file.parts:
                    yield str(Path(package) / file.relative_to(folder)), file
