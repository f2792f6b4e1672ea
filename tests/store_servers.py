"""Servers of the stores that are not Amazon's, on loopback, for as long as a test needs them:
fake-gcs-server for `gs`, Azurite for `abfss`, and HDFS itself, in one process, for `webhdfs`.

    with running("gs", directory) as store:
        stores.write(store.uri("logs", "a.log"), b"...")

They come from Go's, npm's and Maven's registries, and stay in `build/`. Tests of one whose tools
are missing are skipped, unless REQUIRE_STORES is set: then they fail."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .fetching import once, run
from .object_store import REQUIRED
from .ports import LOOPBACK, free_ports, wait_for_server

HERE: Final = Path(__file__).parent
BUILD: Final = HERE.parent / "build"
START_SECONDS: Final = 240.0

GCS: Final = "github.com/fsouza/fake-gcs-server@v1.56.1"
AZURITE: Final = "azurite@3.35.0"
# Azurite's own account, which is the same everywhere.
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
HADOOP: Final = "3.5.0"
COPY: Final = "dependency:copy-dependencies"
MODULES: Final = {"webhdfs": ("fsspec", "requests")}
TOOLS: Final = {"gs": ("go",), "abfss": ("node", "npm"), "webhdfs": ("java", "javac", "mvn")}


@dataclass(frozen=True, slots=True)
class Store:
    """A store that runs. `environment`: what a client's has to say of it."""

    root: str
    query: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def uri(self, *names: str) -> str:
        return "/".join((self.root, *names)) + self.query


def missing(kind: str) -> list[str]:
    """The tools and modules that are not here. AssertionError: some are not, and REQUIRE_STORES
    says that they must be."""
    absent = [tool for tool in TOOLS[kind] if shutil.which(tool) is None]
    absent += [name for name in MODULES.get(kind, ()) if find_spec(name) is None]
    assert not (absent and REQUIRED), f"not here: {', '.join(absent)}"
    return absent


@contextmanager
def running(kind: str, directory: Path) -> Iterator[Store]:
    """A store of a kind (`gs`, `abfss`, `webhdfs`), empty, with a bucket called `bucket`."""
    started = {"gs": _gs, "abfss": _azure, "webhdfs": _hdfs}[kind]
    command, ports, store = started(directory)
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        for port in ports:
            wait_for_server(port, process, log.read_text, START_SECONDS)
        yield store
    finally:
        process.kill()
        process.wait()


def _gs(directory: Path) -> tuple[Sequence[str | Path], list[int], Store]:
    home = BUILD / "fake-gcs-server"
    with once(home) as new:
        if new:
            run("go", "install", "-trimpath", GCS, environment={"GOBIN": str(new)})
    (directory / "buckets" / "bucket").mkdir(parents=True)
    ports = free_ports(1)
    address = f"{LOOPBACK}:{ports[0]}"
    options = {
        "-scheme": "http",
        "-host": LOOPBACK,
        "-port": str(ports[0]),
        "-public-host": address,
        "-backend": "filesystem",
        "-filesystem-root": str(directory / "buckets"),
        "-log-level": "error",
    }
    words = (word for option in options.items() for word in option)
    command = [home / "fake-gcs-server", *words]
    return (
        command,
        ports,
        Store("gs://bucket", f"?endpoint_override=http://{address}&anonymous=true"),
    )


def _azure(directory: Path) -> tuple[Sequence[str | Path], list[int], Store]:
    home = BUILD / "azurite"
    with once(home) as new:
        if new:
            run("npm", "install", "--no-audit", "--no-fund", "--prefix", str(new), AZURITE)
    program = home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    ports = free_ports(1)
    # An option makes it answer clients that are newer than itself.
    options = ("--blobHost", LOOPBACK, "--blobPort", str(ports[0]), "--skipApiVersionCheck")
    command = ["node", program, *options, "--silent", "--location", directory]
    store = Store(
        f"abfss://bucket@{ACCOUNT}.dfs.core.windows.net",
        f"?endpoint_override=http://{LOOPBACK}:{ports[0]}",
        {"AZURE_STORAGE_KEY": KEY},
    )
    return command, ports, store


def _hdfs(directory: Path) -> tuple[Sequence[str | Path], list[int], Store]:
    home = BUILD / f"hdfs-{HADOOP}"
    with once(home) as new:
        if new:
            pom = HERE / "hdfs" / "pom.xml"
            version, target = f"-Dhadoop.version={HADOOP}", f"-DoutputDirectory={new}"
            run("mvn", "-q", "-B", "-f", str(pom), version, target, COPY)
            source = HERE / "hdfs" / "MiniCluster.java"
            run("javac", "-cp", f"{new}/*", "-d", str(new), str(source))
    ports = free_ports(2)
    java = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{home}/*:{home}")
    command = [*java, "MiniCluster", directory / "hdfs", *map(str, ports)]
    root = f"webhdfs://{LOOPBACK}:{ports[0]}"
    return command, ports, Store(root, environment={"HADOOP_USER_NAME": "tester"})
