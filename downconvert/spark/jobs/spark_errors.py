"""Shortens a failure of Spark to one line: the error, and the machine.

Spark reports a failed task as the JVM's message, which contains the traceback of the Python worker,
followed by the stack of the JVM. Only the last line of the traceback helps the caller of a job.

Not here: errors of this package (errors.py)."""

import re
from typing import Final

from pyspark.errors import PySparkException

try:
    from py4j.protocol import Py4JError
except ModuleNotFoundError:  # pyspark-client, which only has Spark Connect
    OF_SPARK: tuple[type[Exception], ...] = (PySparkException,)
else:
    OF_SPARK = (PySparkException, Py4JError)

LOST_TASK: Final = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\S+)\): ")
TRACEBACK: Final = "Traceback (most recent call last):"
JVM_STACK: Final = re.compile(r"^\s+at .*|^Caused by: .*|^Driver stacktrace:.*", re.MULTILINE)
JVM_CLASS: Final = re.compile(r"^(?:[a-z][\w]*\.)+([A-Z]\w*): ")
PYTHON_ERROR: Final = re.compile(r"^(?P<module>(?:\w+\.)*)(?P<name>[A-Z]\w*)(?:: (?P<words>.*))?$")
# Errors of these packages have clear texts, so the class name is left out.
OURS: Final = ("downconvert.", "records.")

# The JVM's texts for a worker that was killed while idle, or during a write to it.
CUT_OFF: Final = ("Stream closed", "Broken pipe", "Connection reset")
LOST_CONNECTION: Final = "the connection to a Python worker was lost"
WORKER_LOST: Final = ("Python worker exited unexpectedly", "ExecutorLost", LOST_CONNECTION)
LINE_MAX: Final = 1000  # characters


def in_a_line(error: Exception) -> str:
    """The error and its place."""
    java = getattr(error, "java_exception", None)
    text = str((java.getMessage() if java is not None else None) or error)
    lost = LOST_TASK.search(text)
    where = "" if lost is None or lost[2] == "driver" else f" (executor {lost[2]} on {lost[1]})"
    words = _of_python(text) or _of_the_jvm(text if lost is None else text[lost.end() :])
    return f"{words[:LINE_MAX].rstrip('.')}{where}"


def is_worker_lost(line: str) -> bool:
    """Whether a line is about a lost process, not about the data: a retry may work."""
    return any(words in line for words in WORKER_LOST)


def _of_python(text: str) -> str | None:
    """The error at the end of a worker's traceback; None: there is no traceback."""
    _, found, traceback = text.partition(TRACEBACK)
    if not found:
        return None
    stack = JVM_STACK.search(traceback)
    lines = traceback[: stack.start() if stack else None].splitlines()
    errors = [match for line in lines if (match := PYTHON_ERROR.match(line))]
    if not errors:
        return None
    last = errors[-1]
    if last["module"].startswith(OURS) and last["words"]:
        return last["words"]
    return last["name"] if last["words"] is None else f"{last['name']}: {last['words']}"


def _of_the_jvm(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "Spark failed and did not say why")
    words = JVM_CLASS.sub("", line).partition(" Consider setting")[0].strip()
    return f"{LOST_CONNECTION} ({words})" if words.startswith(CUT_OFF) else words
