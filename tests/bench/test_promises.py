"""A few of the hundred thousand cases, and the report of a broken promise."""

import pytest
from click.testing import CliRunner

from bench import promises
from bench.promises import main


def test_some_cases_are_as_promised() -> None:
    done = CliRunner().invoke(main, ["--cases", "10", "--seed", "2"])
    assert done.exit_code == 0, done.output
    assert "10 cases" in done.output


def test_a_failure_ends_with_the_command_that_shows_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_seed: int, number: int, _directory: object) -> int:
        assert number != 3, "broken"
        return 1

    monkeypatch.setattr(promises, "run_case", fails)
    done = CliRunner().invoke(main, ["--cases", "10", "--seed", "7"])
    assert done.exit_code == 1
    assert done.output.endswith("case 3; reproduce: python -m bench.promises --seed 7 --only 3\n")
