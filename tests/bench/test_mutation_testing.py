"""Mutation testing: the chosen lines and tests. The tools are not needed."""

import subprocess
from pathlib import Path

import pytest

from bench.mutation_testing import changed_lines, own_tests


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    subprocess.run(("git", *identity, *arguments), check=True, capture_output=True)


def test_the_lines_that_have_changed_are_those_of_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    git("init", "-q", "-b", "main")
    for name in ("records/a.py", "records/b.py", "tests/c.py", "records/note.md"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("1\n2\n3\n4\n")
    git("add", "-A")
    git("commit", "-qm", "before")
    Path("records/a.py").write_text("1\nnew\nnew\n3\n4\nlast\n")
    Path("records/b.py").write_text("1\n3\n4\n")  # a line is gone: there is none to look at
    Path("tests/c.py").write_text("new\n")
    Path("records/note.md").write_text("new\n")
    assert changed_lines("main") == {"records/a.py": {2, 3, 6}}
    git("commit", "-qam", "after")
    assert changed_lines("main") == {}
    assert changed_lines("HEAD~1") == {"records/a.py": {2, 3, 6}}


def test_a_files_tests_are_those_of_its_name_and_some_that_import_it() -> None:
    found = own_tests("downconvert/broker/topic_settings.py")
    assert found[0] == "tests/downconvert/broker/test_topic_settings.py"
    assert "tests/downconvert/broker/handlers/test_describe_configs.py" in found


def test_all_tests_of_a_small_folder_are_run() -> None:
    found = own_tests("downconvert/broker/replication/replica.py")
    assert "tests/downconvert/broker/replication/test_follower_fields.py" in found


def test_a_file_without_own_tests_gets_those_of_its_folder() -> None:
    assert own_tests("records/no_such_file.py") == ["tests/records"]


def test_a_file_whose_folder_has_no_tests_gets_those_of_the_folder_above() -> None:
    assert own_tests("records/reference/log.py") == ["tests/records"]
