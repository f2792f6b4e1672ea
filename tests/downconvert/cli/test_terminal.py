"""The notice that the reference runs, beside the output."""

import json
from pathlib import Path

import pytest

from .running import start

KERNEL = "records._kernel records.native"


@pytest.mark.parametrize(
    "arguments",
    [
        "convert {segment} {tmp}/converted.log --to-magic 1",
        "dump {segment}",
        "generate {tmp}/made size=2KiB",
        "inspect --deep {tmp}",
        "recover --dry-run {tmp}",
        "simulate --generate size=2KiB --consumers 1 --slow 0 --rounds 1",
        "simulate-cluster --seed 1 --seconds 1",
        "upgrade {tmp} {tmp}-upgraded",
        "serve {tmp} --listen 999.0.0.1:1",
    ],
)
def test_each_command_reports_a_missing_kernel_once(
    arguments: str, segment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAZY_DOWNCONVERT_BACKEND", raising=False)
    filled = arguments.format(tmp=tmp_path, segment=segment)
    _, err = start(*filled.split(), blocked=KERNEL).communicate(timeout=240)
    assert err.count("runs on the Python reference") == 1, err
    assert "--no-binary lazy-downconvert" in err


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_gateway_logs_it(options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAZY_DOWNCONVERT_BACKEND", raising=False)
    where = ("--bootstrap", "127.0.0.1:9", "--listen", "127.0.0.1:0")
    process = start("gateway", *where, *options, blocked=KERNEL)
    assert process.stdout is not None
    assert "127.0.0.1" in process.stdout.readline()
    process.terminate()
    _, err = process.communicate(timeout=60)
    (line,) = (line for line in err.splitlines() if "runs on the Python reference" in line)
    assert not options or json.loads(line)["level"] == "warning"


def test_a_forced_reference_is_reported_with_its_variable(
    segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAZY_DOWNCONVERT_BACKEND", "reference")
    _, err = start("dump", segment).communicate(timeout=60)
    assert err.startswith("note: LAZY_DOWNCONVERT_BACKEND=reference")


def test_with_the_kernel_no_notice_is_printed(
    segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("records._kernel")
    monkeypatch.delenv("LAZY_DOWNCONVERT_BACKEND", raising=False)
    _, err = start("dump", segment).communicate(timeout=60)
    assert not err
