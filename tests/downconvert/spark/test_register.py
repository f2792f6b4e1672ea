"""Sessions know the format, tasks run in the right Python, and counts are sums. No JVM runs."""

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import AnalysisException

import downconvert.spark
from downconvert.spark import count, register, splits
from downconvert.spark.source import SegmentSource

OTHER = "/other/bin/python"


@pytest.fixture(autouse=True)
def listened(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the driver listens for warnings of tasks."""
    found: list[bool] = []
    monkeypatch.setattr(downconvert.spark, "listen", lambda: found.append(True))
    return found


def session(master: str | None, error: Exception | None = None) -> Any:
    """Stands for a session. `master`: None as in Spark Connect. `error`: of registering."""
    sources: list[type] = []

    def told(source: type) -> None:
        if error is not None:
            raise error
        sources.append(source)

    made = SimpleNamespace(sources=sources, dataSource=SimpleNamespace(register=told))
    if master is not None:
        made.sparkContext = SimpleNamespace(master=master, pythonExec="python3")
    return made


@pytest.mark.parametrize(
    ("master", "named", "python"),
    [
        ("local", None, sys.executable),
        ("local[2]", None, sys.executable),
        ("local[2]", OTHER, OTHER),
        ("spark://local:7077", None, "python3"),
        ("yarn", OTHER, "python3"),
    ],
)
def test_tasks_on_this_machine_run_in_the_drivers_python_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch, master: str, named: str | None, python: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", named)
    found = session(master)
    register(found)
    assert found.sparkContext.pythonExec == python


@pytest.mark.parametrize("master", [None, "local[2]"])
def test_a_session_knows_the_format(master: str | None, listened: list[bool]) -> None:
    found = session(master)
    register(found)
    assert found.sources == [SegmentSource]
    assert listened


def test_a_session_that_has_found_the_format_by_itself_is_left_as_it_is() -> None:
    def failed(condition: str) -> AnalysisException:
        return AnalysisException(condition, errorClass=condition, messageParameters={})

    register(session("yarn", failed("DATA_SOURCE_ALREADY_EXISTS")))
    other = failed("DATA_SOURCE_NOT_FOUND")
    with pytest.raises(AnalysisException) as raised:
        register(session("yarn", other))
    assert raised.value is other


@pytest.mark.parametrize(("total", "expected"), [(None, 0), (7, 7)])
def test_a_count_is_the_sum_of_what_its_splits_have(total: int | None, expected: int) -> None:
    """Spark's sum of no rows is null."""
    asked = MagicMock()
    loaded = asked.read.format.return_value.options.return_value.option.return_value.load
    loaded.return_value.groupBy().sum.return_value.collect.return_value = [(total,)]
    assert count(asked, "/a", "/b", topics="t") == expected
    loaded.return_value.groupBy().sum.assert_called_with("records")
    asked.read.format.return_value.options.assert_called_with(topics="t")
    loaded.assert_called_with(["/a", "/b"])


def test_a_level_is_that_of_the_function_whatever_the_options_say() -> None:
    asked = MagicMock()
    reader = asked.read.format.return_value.options
    splits(asked, "/a", level="count")
    assert reader.return_value.option.call_args.args == ("level", "split")
