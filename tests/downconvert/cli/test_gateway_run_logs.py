"""The logs of a gateway's process: their level, their cluster, the audit, and their end."""

import json
import logging
from pathlib import Path

import pytest

from downconvert.cli.failure import CommandError
from downconvert.cli.gateway_run import LOGS, logs
from downconvert.gateway.clusters import ONLY
from records.logged import log_of

AUDIT = "downconvert.audit"
HERE = log_of("downconvert.gateway.test")


def handlers() -> list[list[logging.Handler]]:
    return [list(logging.getLogger(name).handlers) for name in (*LOGS, AUDIT)]


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING])
@pytest.mark.parametrize("cluster", [ONLY, "north"])
def test_lines_have_the_level_and_the_cluster_that_were_asked_for(
    capsys: pytest.CaptureFixture[str], cluster: str, level: int
) -> None:
    before = handlers()
    end = logs(None, cluster, as_json=True, level=level)
    for one in (logging.DEBUG, logging.INFO, logging.WARNING):
        HERE.log(one, "said")
    end()
    HERE.error("after the end")
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line[:1] == "{"]
    wanted = [name for name in ("debug", "info", "warning") if _of(name) >= level]
    assert [one["level"] for one in found] == wanted
    assert [one.get("cluster", ONLY) for one in found] == [cluster] * len(wanted)
    assert handlers() == before


def _of(name: str) -> int:
    return logging.getLevelNamesMapping()[name.upper()]


def test_the_audit_is_kept_in_its_file_until_the_end(tmp_path: Path) -> None:
    before, path = handlers(), tmp_path / "audit"
    end = logs(path, as_json=False, level=logging.WARNING)
    audit = logging.getLogger(AUDIT)
    audit.info("kept")
    end()
    audit.info("not kept")
    assert [json.loads(line)["message"] for line in path.read_text().splitlines()] == ["kept"]
    assert handlers() == before


def test_an_audit_that_cannot_be_kept_is_reported_in_words(tmp_path: Path) -> None:
    before, path = handlers(), tmp_path / "no" / "audit"
    with pytest.raises(CommandError) as raised:
        logs(path, as_json=False, level=logging.INFO)
    assert str(raised.value) == f"--audit {path}: No such file or directory"
    assert handlers() == before
