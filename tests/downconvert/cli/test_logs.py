"""The log lines of servers' commands."""

import json
import logging
from typing import Final

import pytest

from downconvert.cli.logs import level_of, show_logs

NAME: Final = "downconvert.test_logs"


def log_some() -> None:
    logging.getLogger(f"{NAME}.inside").info("a %s", "line", extra={"fields": {"client": "x"}})
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger(NAME).exception("it failed")
    logging.getLogger(NAME).debug("hidden")


def test_log_lines_are_text_or_json_with_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for as_json in (False, True):
        end = show_logs((NAME,), as_json=as_json)
        log_some()
        end()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith(" a line")
    first, second = map(json.loads, lines[-2:])
    assert (first["message"], first["client"], first["level"]) == ("a line", "x", "info")
    assert first["logger"] == f"{NAME}.inside"
    assert "ValueError: bad" in second["trace"]


def test_logging_ends_without_leftovers(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger(NAME)
    before = (list(log.handlers), log.level, log.propagate)
    show_logs((NAME,), as_json=True, level=logging.DEBUG)()
    log_some()
    assert (log.handlers, log.level, log.propagate) == before
    assert not capsys.readouterr().err


def test_verbose_and_quiet_choose_the_level() -> None:
    levels = [
        level_of(verbose=v, quiet=q) for v, q in ((True, False), (False, False), (False, True))
    ]
    assert levels == [logging.DEBUG, logging.INFO, logging.WARNING]
