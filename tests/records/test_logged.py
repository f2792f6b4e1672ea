"""Text from others stays within its line, and a line within its length."""

import ast
import logging
from pathlib import Path
from threading import Thread

import pytest

import downconvert
import records
from records.logged import LINE_MAX, TEXT_MAX, log_fields, log_of, shown, with_log_fields

# The one file that makes loggers, and the one that says where their lines go.
MAKERS = {"logged.py", "logs.py"}
EVIL = "t\n2026-01-01 00:00:00,000 all is well\r\x1b[2J\x9b31m\u2028\u202e"


def test_harmless_text_is_logged_unchanged() -> None:
    assert shown("orders of größe 5 \N{SNOWMAN}") == "orders of größe 5 \N{SNOWMAN}"


@pytest.mark.parametrize("letter", "\0\n\r\t\x0b\x0c\x1b\x7f\x85\x9b\u2028\u2029\u202e\ud800")
def test_line_breaks_and_control_codes_are_escaped(letter: str) -> None:
    text = shown(f"a{letter}b")
    assert text.isprintable()
    assert text.startswith("a\\")
    assert text.endswith("b")


def test_a_text_has_a_bounded_length() -> None:
    assert shown("x" * TEXT_MAX) == "x" * TEXT_MAX
    assert len(shown("x" * (TEXT_MAX + 1))) == TEXT_MAX


def test_the_records_of_a_thread_and_of_those_that_it_starts_have_its_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = log_of("downconvert.test")
    with log_fields(cluster="east"):
        log.warning("in it", extra={"fields": {"client": "10.1.2.3"}})
        inside = Thread(target=with_log_fields(lambda: log.warning("started in it")))
        other = Thread(target=lambda: log.warning("another thread"))
        for thread in (inside, other):
            thread.start()
            thread.join()
    log.warning("after it")
    found = {one.getMessage(): vars(one).get("fields") for one in caplog.records}
    assert found == {
        "in it": {"cluster": "east", "client": "10.1.2.3"},
        "started in it": {"cluster": "east"},
        "another thread": None,
        "after it": None,
    }


def test_every_message_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = log_of("downconvert.test")
    error = ValueError(EVIL * 1000)
    log.warning("topic %s of %d: %s", EVIL, 5, error, extra={"fields": {"topic": EVIL * 1000}})
    log.warning(EVIL)
    log.info("100 %")
    first, second = caplog.records
    assert first.getMessage().startswith("topic t\\n2026")
    assert " of 5: t\\n" in first.getMessage()
    for record in (first, second):
        assert record.getMessage().isprintable()
        assert len(record.getMessage()) <= LINE_MAX
        assert record.pathname == __file__  # where it was logged, not where it was escaped
    assert len(first.fields["topic"]) <= LINE_MAX  # type: ignore[attr-defined]


def test_an_argument_leaves_room_for_the_others(caplog: pytest.LogCaptureFixture) -> None:
    for size in (LINE_MAX // 4, 9000):
        log_of("downconvert.test").warning("%s and %s, %d", "x" * (size + 1), ["y" * size], 7)
        message = caplog.records[-1].getMessage()
        assert message.endswith("…, 7")
        assert (message.count("x"), message.count("y")) == (LINE_MAX // 4, LINE_MAX // 4 - 2)
    log_of("downconvert.test").warning("%s", "x" * (LINE_MAX // 4))
    assert caplog.records[-1].getMessage() == "x" * (LINE_MAX // 4)


def test_a_message_that_nobody_sees_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("it is made")

    caplog.set_level(logging.WARNING, "downconvert.test")
    log_of("downconvert.test").info("%s", Costly())
    assert not caplog.records


def test_an_exception_goes_with_its_message(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("x")
    except ValueError:
        log_of("downconvert.test").exception("a defect")
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (logging.ERROR, True)


def test_all_modules_log_through_log_of() -> None:
    """Otherwise a client's text could go into a line as it is."""
    for package in (records, downconvert):
        for path in Path(package.__path__[0]).rglob("*.py"):
            text = path.read_text()
            made = [
                node
                for node in (ast.walk(ast.parse(text)) if "logging" in text else ())
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "logging"
                and node.attr not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "LogRecord")
            ]
            assert not made or path.name in MAKERS, f"{path}: use records.logged.log_of"
