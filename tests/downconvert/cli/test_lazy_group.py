"""Groups list their subcommands without loading them, and shells complete them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from downconvert.cli.app import COMMANDS
from downconvert.cli.lazy_group import Entry
from downconvert.cli.spark import JOBS

from .running import ROOT, Command, start


@pytest.mark.parametrize("arguments", [["--help"], ["spark", "--help"]])
def test_help_of_a_group_loads_no_subcommand_and_no_codec(arguments: list[str]) -> None:
    code = f"import sys; from downconvert.cli.app import run; run({arguments}); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = set(ran.stdout.splitlines()[-1].split())
    entries = (*COMMANDS.values(), *JOBS.values())
    modules = {entry.module for entry in entries} - {"downconvert.cli.spark"}
    assert not loaded & (modules | {"records", "rich", "lz4", "kafka"})


def test_a_summary_names_the_extra_only_where_it_is_missing() -> None:
    assert Entry("m", "Does this.", "click").line() == "Does this."
    assert Entry("m", "Does this.").line() == "Does this."


def completed(shell: str, *words: str, at: int | None = None) -> list[str]:
    """The completions of the last word."""
    place = len(words) - 1 if at is None else at
    asked = {
        "_DOWNCONVERT_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": words[place] if shell == "fish" else str(place),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "downconvert"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        env=os.environ | asked,
    )
    return ran.stdout.split("\n")


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "plain,doctor"),
        ("zsh", "doctor"),
        ("fish", "plain,doctor\tFind the clients that Kafka 4 would break."),
    ],
)
def test_a_shell_completes_names_of_subcommands(shell: str, line: str) -> None:
    assert line in completed(shell, "downconvert", "do")


def test_a_shell_completes_jobs_options_and_values() -> None:
    assert "plain,audit" in completed("bash", "downconvert", "spark", "au")
    assert "plain,--to-magic" in completed("bash", "downconvert", "convert", "--to")
    assert "plain,kip-283" in completed("bash", "downconvert", "simulate", "--preset", "kip")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_takes_the_script_that_it_is_given(shell: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "downconvert"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        env=os.environ | {"_DOWNCONVERT_COMPLETE": f"{shell}_source"},
    )
    assert f"_DOWNCONVERT_COMPLETE={shell}_complete" in ran.stdout
    script = tmp_path / "script"
    script.write_text(ran.stdout)
    if shutil.which(shell):
        subprocess.run([shell, "-n", script], check=True)


def test_an_unknown_shell_is_an_error(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setenv("_DOWNCONVERT_COMPLETE", "tcsh_source")
    assert command().code == 1


def test_a_closed_standard_output_is_not_an_error(segment: Path, tmp_path: Path) -> None:
    for words in ("--version", f"dump {segment}", f"convert {segment} {tmp_path}/out --to-magic 1"):
        ran = subprocess.run(
            f"{sys.executable} -m downconvert {words} >&-",
            shell=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in ran.stderr
    assert (tmp_path / "out").stat().st_size > 0


def test_without_the_extra_help_says_what_a_command_does_and_what_to_install() -> None:
    process = start("serve", "--help", blocked="kafka scramp prometheus_client")
    out, _ = process.communicate(timeout=60)
    assert "Serve a log directory to Kafka clients." in out
    assert "pip install 'lazy-downconvert[broker]'" in " ".join(out.split())
