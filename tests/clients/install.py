"""Fetches clients from their registries, at pinned versions, into `build/clients`, once.

pip, Maven, npm, go and cargo do it, with what the machine has configured.

Not here: which clients there are (combinations.py)."""

import shutil
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.fetching import once, run
from tests.kafka_server import COMPILER, MAVEN_OPTIONS

from .combinations import GO, MAVEN, NPM, PYPI, RUST, C, Client

PROGRAMS: Final = Path(__file__).parent / "programs"
HOME: Final = Path(__file__).parents[2] / "build" / "clients"

# Dependencies of the clients of PyPI. The versions that the clients ask for no longer build.
SHARED_OF_PYTHON: Final = (
    *("six==1.16.0", "kazoo==2.8.0", "tabulate==0.9.0", "packaging==24.2"),
    *("lz4==4.3.3", "zstandard==0.23.0", "python-snappy==0.7.3", "cramjam==2.9.1"),
    *("async-timeout==4.0.3", "typing_extensions==4.12.2", "xxhash==3.5.0"),
)
SHARED_OF_NODE: Final = ("snappyjs@0.7.0", "lz4js@0.2.0", "fzstd@0.1.1")
# Dependencies of the codecs of kafka-go 0.1 and 0.2, which are older than Go's modules.
GO_BESIDE: Final = ("github.com/golang/snappy@v0.0.4", "github.com/pierrec/lz4@v2.6.1+incompatible")
BESIDE: Final = {"aiokafka-0.8.1": ("kafka-python==2.0.2",)}
JAVA: Final = ("java", "-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
TOOLS: Final[dict[str, tuple[str, ...]]] = {
    PYPI: (),
    MAVEN: ("java", "javac", "mvn"),
    NPM: ("node", "npm"),
    GO: ("go",),
    RUST: ("cargo",),
    C: ("cargo", "cc", "make", "bash"),
}
# The bindings that bring a version of librdkafka.
RDKAFKA_SYS: Final = {
    "0.9.5": "0.9.5-1",
    "0.11.6": "0.11.6-1",
    "1.0.0": "1.0.0",
    "1.4.2": "2.0.0+1.4.2",
}


def missing(registry: str) -> list[str]:
    """The tools that it takes and that are not here."""
    return [tool for tool in TOOLS[registry] if shutil.which(tool) is None]


def installed(client: Client) -> list[str]:
    """The command that runs the client's program. InstallError: there is no such client."""
    return _INSTALLERS[client.registry](client)


def _from_pypi(client: Client) -> list[str]:
    folder = _folder(client)
    shared = HOME / PYPI / "shared"
    with once(folder) as new:
        if new:
            package = f"{client.name}=={client.version}"
            _pip("--no-deps", "--target", str(new), package, *BESIDE.get(client.folder, ()))
    with once(shared) as new:
        if new:
            _pip("--only-binary", ":all:", "--no-deps", "--target", str(new), *SHARED_OF_PYTHON)
    python = PROGRAMS / "python"
    launched = (python / "launch.py", folder, shared, python / client.program)
    return [sys.executable, *map(str, launched)]


def _from_maven(client: Client) -> list[str]:
    folder, java = _folder(client), PROGRAMS / "java"
    old = client.name == "kafka"
    with once(folder) as new:
        if new:
            artifact = "kafka_2.11" if old else client.name
            settings = (f"-Dclient.artifact={artifact}", f"-Dclient.version={client.version}")
            pom, target = ("-f", str(java / "pom.xml")), f"-DoutputDirectory={new}"
            copied = (*pom, *settings, "dependency:copy-dependencies", target)
            run("mvn", "-q", "-B", *copied, environment=MAVEN_OPTIONS)
    names = ("Asked", "Producer", "Simple", "Shell") if old else ("Asked", "Producer", "Clients")
    sources = [java / f"{name}.java" for name in names]
    with once(_built(folder, sources)) as new:
        if new:
            path = ("-cp", f"{folder}/*", "-d", str(new))
            run(*COMPILER, "-nowarn", "-Xlint:none", *path, *map(str, sources))
    return [*JAVA, "-cp", f"{_built(folder, sources)}:{folder}/*", client.program]


def _from_npm(client: Client) -> list[str]:
    """Without what would have to be compiled."""
    folder, shared = _folder(client), HOME / NPM / "shared"
    quiet = ("--no-save", "--no-package-lock", "--omit=optional", "--ignore-scripts")
    for target, packages in (
        (folder, (f"{client.name}@{client.version}",)),
        (shared, SHARED_OF_NODE),
    ):
        with once(target) as new:
            if new:
                run("npm", "install", *quiet, "--prefix", str(new), *packages)
    node = PROGRAMS / "node"
    path = f"NODE_PATH={node / 'stand_ins'}:{shared / 'node_modules'}"
    return ["env", path, "node", str(node / client.program), str(folder)]


def _from_go(client: Client) -> list[str]:
    sources = [PROGRAMS / "go" / "asked.go", PROGRAMS / "go" / client.program / "main.go"]
    module = "github.com/segmentio/kafka-go"
    if client.name == "sarama":
        moved = tuple(map(int, client.version.split("."))) >= (1, 40)
        module = "github.com/IBM/sarama" if moved else "github.com/Shopify/sarama"
    built = _built(_folder(client), sources)
    with once(built) as new:
        if new:
            (new / "go.mod").write_text("module client\n\ngo 1.21\n")
            for source in sources:
                text = source.read_text().replace("github.com/Shopify/sarama", module)
                (new / source.name).write_text(text)
            beside = GO_BESIDE if client.name == "kafka-go" else ()
            run("go", "get", f"{module}@v{client.version}", *beside, cwd=new)
            run("go", "build", "-o", "read", ".", cwd=new)
    return [str(built / "read")]


def _from_crates(client: Client) -> list[str]:
    source = PROGRAMS / "rust" / "main.rs"
    built = _built(_folder(client), [source])
    with once(built) as new:
        if new:
            (new / "src").mkdir()
            shutil.copy(source, new / "src")
            (new / "Cargo.toml").write_text(
                '[package]\nname = "read"\nversion = "0.1.0"\nedition = "2021"\n'
                "[features]\nold = []\n[workspace]\n[dependencies.kafka]\n"
                f'version = "={client.version}"\n'
                'default-features = false\nfeatures = ["snappy", "gzip"]\n'
            )
            old = ("--features", "old") if client.version.startswith("0.8") else ()
            run("cargo", "build", "--quiet", *old, cwd=new)
    return [str(built / "target" / "debug" / "read")]


def _librdkafka(client: Client) -> list[str]:
    """The library in C, as Rust's bindings to it bring it along."""
    source = PROGRAMS / "c" / "read.c"
    folder = _folder(client)
    with once(folder) as new:
        if new:
            (new / "src").mkdir()
            (new / "src" / "lib.rs").touch()
            (new / "Cargo.toml").write_text(
                '[package]\nname = "fetched"\nversion = "0.1.0"\nedition = "2018"\n'
                "[workspace]\n[dependencies.rdkafka-sys]\n"
                f'version = "={RDKAFKA_SYS[client.version]}"\ndefault-features = false\n'
            )
            run("cargo", "vendor", "--quiet", "vendor", cwd=new)
            library = new / "vendor" / "rdkafka-sys" / "librdkafka"
            without = ("--disable-ssl", "--disable-sasl", "--disable-lz4")
            run("bash", "./configure", *without, cwd=library)
            flags = "-O1 -w -fcommon -Wno-error -std=gnu99"
            run("make", "-C", "src", "librdkafka.a", cwd=library, environment={"CFLAGS": flags})
    library = folder / "vendor" / "rdkafka-sys" / "librdkafka" / "src"
    built = _built(folder, [source])
    with once(built) as new:
        if new:
            linked = (str(library / "librdkafka.a"), "-lz", "-lpthread", "-lrt", "-ldl", "-lm")
            where = ("-I", str(library), "-o", str(new / "read"))
            run("cc", "-O1", "-w", str(source), *where, *linked)
    return [str(built / "read")]


def _folder(client: Client) -> Path:
    return HOME / client.registry / client.folder


def _built(folder: Path, sources: Sequence[Path]) -> Path:
    """Where the program is, as its sources are now."""
    now = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return folder.with_name(f"{folder.name}.built-{now[:12]}")


def _pip(*arguments: str) -> None:
    quiet = ("-q", "--no-compile", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "install", *quiet, *arguments)


_INSTALLERS: Final[dict[str, Callable[[Client], list[str]]]] = {
    PYPI: _from_pypi,
    MAVEN: _from_maven,
    NPM: _from_npm,
    GO: _from_go,
    RUST: _from_crates,
    C: _librdkafka,
}
