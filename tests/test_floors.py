"""The floors of docs/architecture.md: imports go down only, and what may be imported where.

Read from the imports as they stand in the files, wherever in a file they stand."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from sys import stdlib_module_names
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent

# Each package, and the packages that it rests on.
FLOORS: Final = {
    "records": set[str](),
    "downconvert": {"records"},
    "storage": {"records"},
    "broker": {"records", "downconvert", "storage"},
    "gateway": {"records", "downconvert", "storage", "broker"},
    "simulator": {"records", "downconvert", "storage", "broker", "gateway"},
    "pipeline": {"records", "downconvert", "storage", "simulator"},
    "cli": {"records", "downconvert", "storage", "broker", "gateway", "simulator", "pipeline"},
}
NO_PACKAGES: Final = {"native", "tests", "bench", "docs"}  # folders that no package imports

# Modules that reach into the world. Below the broker, only what is said here is used of them, and
# what is called has its parentheses.
SOCKETS: Final = {"socket", "socketserver", "ssl", "select", "selectors", "asyncio"}
THREADS: Final = {"threading", "_thread", "multiprocessing", "concurrent", "subprocess"}
CLOCKS: Final = {"time", "sched", "signal"}
WORLD: Final = SOCKETS | THREADS | CLOCKS
WORLDLY: Final = {"broker", "gateway", "simulator", "pipeline", "cli"}
HARMLESS: Final = {
    ("records/codecs/zstd.py", "threading.local"),  # starts no thread; keeps contexts apart
    (
        "downconvert/conversion/lazy.py",
        "time.perf_counter",
    ),  # handed on, unless the caller hands in another
}

# In the broker and the gateway only these have sockets, threads or a clock. All may have locks.
OUTSIDE: Final = {
    "downconvert/broker/server.py",
    "downconvert/broker/tls.py",
    "downconvert/broker/metrics_server.py",
    "downconvert/gateway/server.py",
    "downconvert/gateway/connection.py",
    "downconvert/gateway/streams.py",
    "downconvert/gateway/upstream.py",
    "downconvert/gateway/observing.py",
}
LOCKS: Final = {"threading.Lock()", "threading.RLock()"}
STOPWATCH: Final = {"time.perf_counter", "time.perf_counter()"}  # for metrics

NEEDED: Final = {"crc32c", "lz4", "zstandard", "cramjam", "xxhash", "isal"}  # of the library

KERNEL: Final = "records._kernel"
KERNEL_FACE: Final = Path("records/native.py")


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name, and the file that imports it."""

    path: Path
    module: str

    @property
    def package(self) -> str:
        return self.module.split(".")[0]


def folders() -> set[str]:
    """The folders at the top, but for hidden ones and what .gitignore names."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().split()}
    return {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".")
        if not any(path.match(pattern) for pattern in ignored)
    }


def imports_of(path: Path) -> Iterator[Import]:
    file = path.relative_to(ROOT)
    for node in ast.walk(ast.parse(path.read_text())):
        for module in modules(node, file.parent.parts):
            yield Import(file, module)


def uses_of_the_world(path: Path) -> Iterator[str]:
    """What a file uses of modules in WORLD: `time.time`, or `time.time()` where it is called."""
    tree = ast.parse(path.read_text())
    known: dict[str, str] = {}  # the name here: the name in full
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                known |= {alias.asname or alias.name: alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                known |= {a.asname or a.name: f"{module}.{a.name}" for a in names}
    known = {name: full for name, full in known.items() if full.split(".")[0] in WORLD}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(name), attribute) if name in known:
                used = f"{known[name]}.{attribute}"
            case ast.Name(name) if "." in known.get(name, ""):
                used = known[name]
            case _:
                continue
        yield used + ("()" if id(node) in called else "")


def modules(node: ast.AST, here: tuple[str, ...]) -> Iterator[str]:
    """What a statement imports; of `from x import y` both, as y may be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = here[: len(here) - node.level + 1] if node.level else ()
        base = ".".join((*above, *filter(None, [node.module])))
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


PACKAGES: Final = sorted(folders() & FLOORS.keys())
IMPORTS: Final = [
    found
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    for found in imports_of(path)
]


def test_every_folder_at_the_top_is_known() -> None:
    assert folders() <= FLOORS.keys() | NO_PACKAGES


def test_every_package_is_in_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    there = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert set(project["tool"]["setuptools"]["packages"]) == there


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_it_rests_on(package: str) -> None:
    ours = FLOORS.keys() | NO_PACKAGES
    above = {
        (str(found.path), found.module)
        for found in IMPORTS
        if found.path.parts[0] == package and found.package in ours - FLOORS[package] - {package}
    }
    assert above == set()


def test_floors_have_no_circle() -> None:
    seen = set[str]()
    for package, below in FLOORS.items():
        assert below <= seen, f"{package} stands below what it rests on"
        seen.add(package)


def test_only_the_kernels_face_touches_the_kernel() -> None:
    touching = {found.path for found in IMPORTS if found.module.startswith(KERNEL)}
    assert touching <= {KERNEL_FACE}


def test_nothing_below_the_broker_opens_sockets_starts_threads_or_reads_a_clock() -> None:
    used = {
        (str(path.relative_to(ROOT)), use)
        for package in PACKAGES
        if package not in WORLDLY
        for path in (ROOT / package).rglob("*.py")
        for use in uses_of_the_world(path)
    }
    assert used == HARMLESS


@pytest.mark.parametrize("package", ["broker", "gateway"])
def test_requests_are_handled_without_sockets_threads_and_clocks(package: str) -> None:
    used = {
        (str(path.relative_to(ROOT)), use)
        for path in (ROOT / package).rglob("*.py")
        if str(path.relative_to(ROOT)) not in OUTSIDE
        for use in uses_of_the_world(path)
        if use not in LOCKS | STOPWATCH
    }
    assert used == set()


def test_a_use_of_the_world_is_seen_however_it_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "worldly.py"
    file.write_text(
        "import socket as s\nfrom time import sleep as wait\nimport threading\nimport os\n"
        "kind = s.socket\nwait(1)\nthreading.Thread(target=wait)\nos.getcwd()\n"
    )
    assert set(uses_of_the_world(file)) == {
        "socket.socket", "time.sleep()", "threading.Thread()", "time.sleep",
    }  # fmt: skip


def test_the_library_needs_no_extra() -> None:
    """records, downconvert and storage run on the distribution's own dependencies."""
    foreign = {
        (str(found.path), found.module)
        for found in IMPORTS
        if found.path.parts[0] in ("records", "downconvert", "storage")
        and found.package not in stdlib_module_names | NEEDED | FLOORS.keys()
    }
    assert foreign == set()
