"""Private members (`object._name`) are used by the code that defines them, and by no test.

A test that looks inside an object fails after a change that no user can notice, and keeps quiet
when what the user sees is wrong."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PRODUCT: Final = ("records", "downconvert", "simulator", "pyspark_kafka_segments")

# Members of Python's library that are public in spite of their names.
PUBLIC: Final = {"_replace", "_asdict", "_fields", "_exit"}

# Members of other projects' objects, and fields of data with such names.
FOREIGN: Final = {
    # aiokafka: a consumer that dies without leaving its group.
    ("tests/downconvert/broker/test_group_clients.py", "_coordinator"),
    ("tests/downconvert/broker/test_group_clients.py", "_stop_heartbeat_task"),
    ("tests/downconvert/broker/test_group_clients.py", "_client"),
    # kafka-python: the leader that a client knows.
    ("tests/downconvert/gateway/test_kafka_4.py", "_client"),
    # PySpark: Java's classes.
    ("tests/downconvert/spark/options/test_java_patterns.py", "_jvm"),
    ("bench/spark_plan.py", "_jvm"),
    # A column of the result, as in Spark's own sources.
    ("tests/downconvert/spark/test_source.py", "_corrupt"),
    # pyiceberg: its configuration, which it reads when it is imported.
    ("tests/downconvert/spark/test_documents.py", "_ENV_CONFIG"),
    # prometheus_client: which metrics are there.
    ("bench/metrics_reference.py", "_collector_to_names"),
    ("bench/metrics_reference.py", "_documentation"),
    ("bench/metrics_reference.py", "_labelnames"),
    ("bench/metrics_reference.py", "_name"),
    ("bench/metrics_reference.py", "_type"),
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


# Only files with this text are parsed: parsing all of them takes seconds.
TRACE: Final = re.compile(r"(?<!\bself)(?<!\bcls)\._[a-zA-Z]|attr\(")


def trees(*folders: str) -> Iterator[tuple[str, ast.AST]]:
    """The files that may use private members of others."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            if TRACE.search(text := path.read_text()):
                yield str(path.relative_to(ROOT)), ast.parse(text)


def private_uses(tree: ast.AST) -> Iterator[str]:
    """Private members of anything but `self` and `cls`, also where they are replaced by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name("self" | "cls"), _) | ast.Call(_, [ast.Name("self"), *_]):
                pass
            case ast.Attribute(_, name) if is_private(name):
                yield name
            case ast.Call(
                ast.Attribute(_, "setattr" | "delattr") | ast.Name("getattr" | "setattr"),
                [ast.expr(), ast.Constant(str(name)), *_],
            ) if is_private(name):
                yield name


def defined(tree: ast.AST) -> set[str]:
    """The names that a file defines: functions, classes, variables and attributes of `self`."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                found.add(name)
            case ast.Name(name, ast.Store()):
                found.add(name)
            case ast.Attribute(ast.Name("self" | "cls"), name):
                found.add(name)
    return found


def test_no_test_and_no_benchmark_uses_private_members() -> None:
    found = {(path, name) for path, tree in trees("tests", "bench") for name in private_uses(tree)}
    assert found == FOREIGN


@pytest.mark.parametrize("folder", PRODUCT)
def test_private_members_are_used_in_the_file_that_defines_them(folder: str) -> None:
    found = {
        (path, name)
        for path, tree in trees(folder)
        for name in set(private_uses(tree)) - defined(tree)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("thing._lock", ["_lock"]),
        ("f(x)[0]._lock.acquire()", ["_lock"]),
        ("self._lock; cls._made; self.other._lock", ["_lock"]),
        ("monkeypatch.setattr(module, '_free', [])", ["_free"]),
        ("getattr(thing, '_free', None); getattr(self, '_free')", ["_free"]),
        ("pair._replace(a=1); thing.__dict__; os._exit(1)", []),
    ],
)
def test_a_use_is_found(source: str, found: list[str]) -> None:
    assert list(private_uses(ast.parse(source))) == found
    assert not found or TRACE.search(source)
