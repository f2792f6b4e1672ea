"""Applications are judged by the records that arrived."""

import pytest

from .application import COUNT, NAMES, Does
from .outcome import Outcome, complaint, judged, merged

ALL = "\n".join(f'line name="{name}" 1' for name in NAMES)


@pytest.mark.parametrize(
    ("does", "seen", "expected"),
    [
        (Does.PRODUCES, ALL, ("", 0)),
        (Does.CONSUMES, f"{ALL}\n{NAMES[3]}\n{NAMES[3]}", ("", 1)),
        (Does.CONSUMES, "", (f"0 of {COUNT}", 0)),
        (Does.PRODUCES, ALL.replace(NAMES[0], "gone"), (f"{COUNT - 1} of {COUNT}", 0)),
        (Does.PRODUCES, ALL.replace(NAMES[0], "record-9999"), (f"{COUNT - 1} of {COUNT}", 0)),
        (Does.WATCHES, str(COUNT), ("", 0)),
        (Does.WATCHES, "3", (f"says 3, not {COUNT}", 0)),
        (Does.WATCHES, "", (f"says nothing, not {COUNT}", 0)),
    ],
)
def test_an_application_is_right_where_everything_arrived(
    does: Does, seen: str, expected: tuple[str, int]
) -> None:
    assert judged(does, seen) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", ""),
        ("all is well", ""),
        ("error: one\nerror: two\nbye", "error: two"),
        ("error: one\nCaused by: java.lang.InterruptedException", "error: one"),
        (
            'java.io.EOFException: the socket\n7507 [kafka] ERROR o.a.s.util - ("Worker died")\n'
            "7600 [main] INFO  o.a.s.s.o.a.z.ZooKeeper - Session: 0x1 closed",
            "java.io.EOFException: the socket",
        ),
        (
            "2026-11-22 11:33:57.123 \x1b[31mERROR\x1b[0m 127.0.0.1:31234/0: disconnected",
            "ERROR broker:9092/0: disconnected",
        ),
        ("2026-11-22T11:33:57.123Z E! [agent] failed: EOF", "E! [agent] failed: EOF"),
        ('dlopen() "/home/me/lib/x.so" failed', 'dlopen() "/…/x.so" failed'),
        ("/home/me/bin/x: error: no y", "/…/x: error: no y"),
        (f"error {'x' * 500}", f"error {'x' * 154}…"),
    ],
)
def test_a_complaint_is_the_last_and_says_nothing_of_this_machine(
    output: str, expected: str
) -> None:
    assert complaint(output) == expected


def test_a_second_run_replaces_the_outcomes_of_the_first() -> None:
    before = [Outcome("a", "s", "3.9.1", "0 of 20"), Outcome("b", "s", "3.9.1", "")]
    after = [Outcome("a", "s", "3.9.1", "")]
    assert merged(before, after) == [after[0], before[1]]
