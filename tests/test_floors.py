"""The floors of docs/architecture.md: imports go down only, and folders and files stay small.

Imports are found wherever they are in a file."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from sys import stdlib_module_names
from typing import Final

import pytest

from .import_statements import import_statements

ROOT: Final = Path(__file__).parent.parent

# The only import names, and the other folders at the top. Spark looks for data sources in modules
# at the top whose names begin with `pyspark_`.
NAMES: Final = {"records", "downconvert", "simulator", "pyspark_kafka_segments"}
OTHER_FOLDERS: Final = {"native", "tests", "bench", "judges", "docs", "deploy"}

# Each floor, and the floors that it may import. `downconvert` is the public API: its one file.
LIBRARY: Final = {"records", "downconvert.conversion", "downconvert"}
STORED: Final = {"downconvert.storage", "downconvert.internal_topics"}
SHARED: Final = {"downconvert.protocol", "downconvert.access", "downconvert.serving"}
SERVERS: Final = LIBRARY | STORED | SHARED | {"downconvert.broker", "downconvert.gateway"}
JOBS: Final = LIBRARY | STORED | {"downconvert.report"}
# In the order of the data flow; each may import those before it.
PARTS: Final = (
    "errors",
    "notices",
    "stores",
    "options",
    "logs",
    "plan",
    "read",
    "stream",
    "source",
)
SPARK: Final = {
    f"downconvert.spark.{name}": JOBS | {f"downconvert.spark.{below}" for below in PARTS[:count]}
    for count, name in enumerate(PARTS)
}
COMMAND: Final = (
    SERVERS
    | JOBS
    | set(SPARK)
    | {
        "downconvert.spark",
        "downconvert.spark.jobs",
        "downconvert.doctor",
        "downconvert.conformance",
    }
)
FLOORS: Final = {
    "records": set[str](),
    "downconvert.conversion": {"records"},
    "downconvert": {"records", "downconvert.conversion"},
    "downconvert.storage": {"records"},
    "downconvert.internal_topics": {"records", "downconvert.storage"},
    "downconvert.report": {"records"},
    "downconvert.protocol": {"records", "downconvert.internal_topics"},
    "downconvert.access": {"records", "downconvert.protocol"},
    "downconvert.serving": {
        "records",
        "downconvert",
        "downconvert.storage",
        "downconvert.protocol",
    },
    "downconvert.broker": LIBRARY | STORED | SHARED,
    "downconvert.gateway": LIBRARY | SHARED,
    "downconvert.doctor": {"records", "downconvert.report"},
    "downconvert.conformance": {
        "records",
        "downconvert.protocol",
        "downconvert.gateway",
        "downconvert.report",
    },
    **SPARK,
    "downconvert.spark": JOBS | set(SPARK),
    "downconvert.spark.jobs": JOBS | set(SPARK) | {"downconvert.spark"},
    "pyspark_kafka_segments": set(SPARK),
    "downconvert.cli": COMMAND,
    "downconvert.__main__": {"downconvert.cli"},
    "simulator": COMMAND | {"downconvert.cli"},
}

# Modules with effects outside the process. Below the servers, only the uses listed here are
# allowed; a call is listed with its parentheses.
SOCKETS: Final = {"socket", "socketserver", "ssl", "select", "selectors", "asyncio"}
THREADS: Final = {"threading", "_thread", "multiprocessing", "concurrent", "subprocess"}
CLOCKS: Final = {"time", "sched", "signal"}
WORLD: Final = SOCKETS | THREADS | CLOCKS
STILL: Final = LIBRARY | STORED
HARMLESS: Final = {
    ("records/budget.py", "threading.Lock()"),  # starts no thread
    ("records/codecs/zstd.py", "threading.local"),  # starts no thread; keeps contexts apart
    ("records/logged.py", "threading.local"),  # starts no thread; keeps threads' fields apart
    # Logs of several threads share it.
    ("downconvert/storage/checkpoints/checkpoints.py", "threading.RLock()"),
    ("downconvert/storage/disk/open_files.py", "threading.Lock()"),  # as above
    # The default of an argument.
    ("downconvert/conversion/lazy.py", "time.perf_counter"),
}

# In the servers and their shared code, only these folders and files have sockets, threads or a
# clock. All may have locks.
OUTSIDE: Final = (
    "downconvert/broker/network/",
    "downconvert/gateway/network/",
    "downconvert/access/jwks_source.py",
    "downconvert/broker/operating/maintenance.py",
    "downconvert/broker/server.py",
    "downconvert/gateway/certificates.py",
    "downconvert/gateway/child_process.py",
    "downconvert/gateway/processes.py",
    "downconvert/gateway/security.py",
    "downconvert/gateway/server.py",
    "downconvert/gateway/shared_ledger.py",
    "downconvert/serving/pages.py",
    "downconvert/serving/pem.py",
    "downconvert/serving/tls.py",
    "downconvert/serving/trust.py",
)
LOCKS: Final = {"threading.Lock()", "threading.RLock()"}
# They start no thread, and keep the data of threads apart.
APART: Final = {"threading.local", "threading.get_ident", "threading.get_ident()"}
STOPWATCH: Final = {"time.perf_counter", "time.perf_counter()"}  # for metrics

FILES_MAX: Final = 24  # in a folder
LINES_MAX: Final = 400  # in a file

NEEDED: Final = {"crc32c", "lz4", "zstandard", "cramjam", "xxhash", "isal"}  # of the library

KERNEL: Final = "records._kernel"
KERNEL_FACE: Final = Path("records/native.py")


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name, and the file that imports it, with its floor."""

    path: Path
    floor: str
    module: str

    @property
    def top(self) -> str:
        return self.module.split(".")[0]


@cache
def floor_of(module: str) -> str:
    """The floor of one of our modules: the longest one that its name begins with."""
    return max((name for name in FLOORS if f"{module}.".startswith(f"{name}.")), key=len)


def module_of(path: Path) -> str:
    """The name of a file's module; for an `__init__.py`, that of its package."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def folders() -> set[str]:
    """The folders at the top, except hidden ones and those in .gitignore."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().split()}
    return {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".")
        if not any(path.match(pattern) for pattern in ignored)
    }


@cache
def imports() -> list[Import]:
    """All imports of all files."""
    return [
        Import(file, floor_of(module_of(file)), module)
        for path in FILES
        for file in [path.relative_to(ROOT)]
        for node in import_statements(path)
        for module in modules(node, file.parent.parts)
    ]


def uses_of_the_world(path: Path) -> Iterator[str]:
    """A file's uses of modules in WORLD: `time.time`, or `time.time()` for a call."""
    tree = ast.parse(path.read_text())
    known: dict[str, str] = {}  # the name here: the name in full
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                known |= {alias.asname or alias.name: alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
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


def modules(node: ast.Import | ast.ImportFrom, here: tuple[str, ...]) -> Iterator[str]:
    """The modules that a statement imports; for `from x import y` both, because y may be one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        above = here[: len(here) - node.level + 1] if node.level else ()
        base = ".".join((*above, *filter(None, [node.module])))
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def imported_files(path: Path, names: set[str]) -> Iterator[str]:
    """Those of these modules that a file imports. `from x import y` means the file x.y if it
    exists, else x."""
    here = path.relative_to(ROOT).parent.parts
    for node in import_statements(path):
        found = list(modules(node, here))
        if isinstance(node, ast.ImportFrom):
            base, *members = found
            found = [member if member in names else base for member in members]
        yield from names.intersection(found)


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Sets of two or more nodes, each leading to all others of its set."""

    def reached(start: str) -> set[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            for node in graph[waiting.pop()] - seen:
                seen.add(node)
                waiting.append(node)
        return seen

    reach = {node: reached(node) for node in graph}
    found = {frozenset(other for other in reach[node] if node in reach[other]) for node in graph}
    return [set(circle) for circle in found if len(circle) > 1]


FILES: Final = [path for name in sorted(NAMES) for path in sorted((ROOT / name).rglob("*.py"))]


def on_floors(*floors: str) -> list[Path]:
    return [path for path in FILES if floor_of(module_of(path.relative_to(ROOT))) in floors]


def test_every_folder_at_the_top_is_known() -> None:
    assert folders() <= NAMES | OTHER_FOLDERS


def test_the_distribution_has_these_import_names_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.removesuffix("*") for pattern in found} == NAMES


def test_every_folder_is_a_package() -> None:
    assert {path.parent for path in FILES} == {p.parent for p in FILES if p.name == "__init__.py"}


@pytest.mark.parametrize("floor", sorted(FLOORS))
def test_a_floor_imports_only_floors_below_it(floor: str) -> None:
    above = {
        (str(found.path), found.module)
        for found in imports()
        if found.floor == floor and found.top in NAMES | OTHER_FOLDERS
        if found.top in OTHER_FOLDERS or floor_of(found.module) not in FLOORS[floor] | {floor}
    }
    assert above == set()


def test_imports_are_relative_within_a_folder_and_absolute_across_folders() -> None:
    """The linter refuses `..`; this test refuses the full name of a neighbour."""
    neighbours = {
        (str(path.relative_to(ROOT)), node.module)
        for path in [*FILES, *sorted((ROOT / "tests").rglob("*.py"))]
        if path.name != "__main__.py"
        for package in [module_of(path.parent.relative_to(ROOT))]
        for node in import_statements(path)
        if isinstance(node, ast.ImportFrom) and not node.level and node.module
        if node.module.rpartition(".")[0] == package
    }
    assert neighbours == set()


def test_the_picture_shows_every_folder() -> None:
    """The picture in docs/architecture.md has each folder below its parent."""
    shown, above = set[str](), [""]
    picture = (ROOT / "docs/architecture.md").read_text().split("```")[1]
    for line in filter(None, picture.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 2
        for name in re.findall(r"(?<!\S)(\w+)/(?=\s|$)", line):
            above[depth + 1 :] = [f"{above[depth]}{name}/"]
            shown.add(above[depth + 1])
    inside = {f"{path.parent.relative_to(ROOT)}/" for path in FILES if path.name == "__init__.py"}
    hidden = ("simulator/", "pyspark_kafka_segments/", "downconvert/spark/jobs/")
    assert {name for name in inside if not name.startswith(hidden)} <= shown
    assert {name for name in shown if not (ROOT / name).is_dir()} == set()


def test_no_folder_has_too_many_files() -> None:
    """Except those with a file for each API, subcommand or way of conversion."""
    found = Counter(str(path.parent.relative_to(ROOT)) for path in FILES)
    wide = {"downconvert/broker/handlers", "downconvert/cli", "downconvert/conversion"}
    large = {name: count for name, count in found.items() if count > FILES_MAX}
    assert {name: count for name, count in large.items() if name not in wide} == {}


def test_no_file_is_too_long() -> None:
    """A longer one has a second concept, which needs a file of its own."""
    files = [*FILES, *(path for name in ("tests", "bench") for path in (ROOT / name).rglob("*.py"))]
    sizes = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in files}
    assert {name: size for name, size in sizes.items() if size > LINES_MAX} == {}


def test_floors_have_no_circle() -> None:
    seen = set[str]()
    for floor, below in FLOORS.items():
        assert below <= seen, f"{floor} is listed before a floor that it imports"
        seen.add(floor)


def test_files_do_not_import_one_another_in_a_circle() -> None:
    names = {module_of(path.relative_to(ROOT)): path for path in FILES}
    found = circles({
        name: set(imported_files(path, set(names))) - {name} for name, path in names.items()
    })  # fmt: skip
    assert found == [], "imports under TYPE_CHECKING count, too"


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str](), "e": {"a", "f"}, "f": {"e"}}
    assert sorted(map(sorted, circles(graph))) == [["b", "c"], ["e", "f"]]


def test_only_one_file_imports_the_compiled_kernel() -> None:
    touching = {found.path for found in imports() if found.module.startswith(KERNEL)}
    assert touching <= {KERNEL_FACE}


def test_nothing_below_the_broker_opens_sockets_starts_threads_or_reads_a_clock() -> None:
    used = {
        (str(path.relative_to(ROOT)), use)
        for path in on_floors(*STILL)
        for use in uses_of_the_world(path)
    }
    assert used == HARMLESS


@pytest.mark.parametrize("floor", sorted({*SHARED, "downconvert.broker", "downconvert.gateway"}))
def test_requests_are_handled_without_sockets_threads_and_clocks(floor: str) -> None:
    used = {
        (str(path.relative_to(ROOT)), use)
        for path in on_floors(floor)
        if not str(path.relative_to(ROOT)).startswith(OUTSIDE)
        for use in uses_of_the_world(path)
        if use not in LOCKS | APART | STOPWATCH
    }
    assert used == set()


def test_a_use_of_these_modules_is_found_however_it_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "worldly.py"
    file.write_text(
        "import socket as s\nfrom time import sleep as wait\nimport threading\nimport os\n"
        "kind = s.socket\nwait(1)\nthreading.Thread(target=wait)\nos.getcwd()\n"
    )
    assert set(uses_of_the_world(file)) == {
        "socket.socket", "time.sleep()", "threading.Thread()", "time.sleep",
    }  # fmt: skip


def test_the_library_needs_no_extra() -> None:
    """Records, conversion and storage need only the distribution's own dependencies."""
    foreign = {
        (str(found.path), found.module)
        for found in imports()
        if found.floor in STILL and found.top not in stdlib_module_names | NEEDED | NAMES
    }
    assert foreign == set()
