"""Patterns in paths are those of Spark's file sources; a path that means nothing is an error."""

from pathlib import Path

import pytest

from downconvert.spark.stores.patterns import alternatives, check_paths, expanded


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some directories and a file, in the working directory."""
    for name in ("b10", "b2", "b1", "b1/c", "b2/c", "^x", "z[1]"):
        (tmp_path / name).mkdir()
    (tmp_path / "b3").write_text("no directory")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["b2", "b1"], ["b2", "b1"]),
        (["b*"], ["b1", "b10", "b2"]),
        (["b?"], ["b1", "b2"]),
        (["b[13]"], ["b1"]),
        (["b[^1]"], ["b2"]),
        (["[^b]x"], ["^x"]),
        (["b{2,1}"], ["b2", "b1"]),
        (["b{1,1{0,1}}"], ["b1", "b10"]),
        (["b1{,0}"], ["b1", "b10"]),
        (["b{1,2}/?"], ["b1/c", "b2/c"]),
        (["b2{}"], ["b2"]),
        (["z[1]"], ["z[1]"]),
        (["b2", "b*", "b1"], ["b2", "b1", "b10"]),
        ([], []),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_pattern_names_the_directories_that_match(paths: list[str], expected: list[str]) -> None:
    assert expanded(paths) == expected


@pytest.mark.usefixtures("here")
def test_the_directories_of_a_pattern_are_in_the_order_of_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file system may list them in any order."""
    monkeypatch.setattr("downconvert.spark.stores.patterns.glob", lambda _: ["b2", "b10", "b1"])
    assert expanded(["b*"]) == ["b1", "b10", "b2"]


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["b3"], "^b3 is not a directory$"),
        (["b4"], "^b4 is not a directory$"),
        (["b[3-9]"], r"^b\[3-9\]: no directory matches that$"),
        (["b1", "d*"], r"^d\*: no directory matches that$"),
        (["b1", "b3"], "^b3 is not a directory$"),
    ],
)
@pytest.mark.usefixtures("here")
def test_each_path_and_pattern_must_be_there(paths: list[str], reason: str) -> None:
    with pytest.raises(NotADirectoryError, match=reason):
        expanded(paths)
    with pytest.raises(NotADirectoryError, match=reason):
        check_paths(paths)


@pytest.mark.parametrize("name", ["logs.tar", "logs.tgz", "logs.tar.gz", "logs.tar.zst"])
def test_a_tar_and_a_uri_are_no_directories_and_are_no_errors(here: Path, name: str) -> None:
    (here / name).write_text("")
    check_paths([name, "b1", f"s3://bucket/{name}", "s3://bucket/d*"])
    (here / name).unlink()
    with pytest.raises(NotADirectoryError, match=f"{name} is not a directory"):
        check_paths(["b1", name])


@pytest.mark.parametrize("name", ["logs.tart", "logs.target", "tar", "rsync.log"])
def test_another_file_is_no_tar(here: Path, name: str) -> None:
    (here / name).write_text("")
    with pytest.raises(NotADirectoryError, match=f"{name} is not a directory"):
        check_paths([name])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a", ["a"]),
        ("a{b,c}d", ["abd", "acd"]),
        ("{a,b}{c,d}", ["ac", "bc", "ad", "bd"]),
        ("{a,b{c,d}}", ["a", "bc", "a", "bd"]),
        ("{}", [""]),
        ("{a", ["{a"]),
        ("a}", ["a}"]),
    ],
)
def test_braces_are_each_of_their_alternatives(pattern: str, expected: list[str]) -> None:
    assert sorted(alternatives(pattern)) == sorted(expected)
