"""Sends warnings of lost records to the driver, from the processes that Spark starts.

Spark plans in Python processes of its own. Their standard error does not appear in a notebook, and
Python shows a warning only once for each line of code. So `register` opens a socket in the driver.
Spark's processes on the same machine find its path in their environment and send their warnings
there. The driver then warns. A process that cannot reach the socket writes its warnings to standard
error.

Not here: the warnings (logs/, stream/, read/)."""

import os
import sys
import warnings
from contextlib import suppress
from functools import cache
from os.path import dirname
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from socket import socket  # loaded where it is used: `import downconvert.spark` is cheap

PLACE: Final = "DOWNCONVERT_NOTICES"  # the socket's path, in the environment
TEXT_MAX: Final = 8 * 1024  # bytes of one warning
OURS: Final = dirname(__file__)  # noqa: PTH120


def is_sparks() -> bool:
    """Whether Spark has started this process (for example as `python -m pyspark.daemon`)."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and str(spec.name).startswith("pyspark.")


def name_place() -> None:
    """Puts the socket's path into the environment of a driver, for its JVM and the JVM's child
    processes. The socket does not exist yet."""
    if not is_sparks():
        folder = os.environ.get("TMPDIR") or "/tmp"
        os.environ[PLACE] = f"{folder}/kafka-segments-{os.urandom(8).hex()}/notices"


@cache
def listen() -> None:
    """Opens the driver's socket. Only this user can access its folder, which is removed at the
    end."""
    import atexit
    import shutil
    import socket
    from pathlib import Path
    from threading import Thread

    with suppress(
        OSError, KeyError, AttributeError
    ):  # without it, warnings go to Spark's standard error
        place = Path(os.environ[PLACE])
        place.parent.mkdir(mode=0o700)
        atexit.register(shutil.rmtree, place.parent, ignore_errors=True)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(str(place))
        Thread(target=_warn, args=(receiver,), name="notices", daemon=True).start()


def _warn(receiver: "socket") -> None:
    """Issues a warning for each text that arrives, as long as the driver runs."""
    while True:
        text = receiver.recv(TEXT_MAX).decode(errors="replace")
        with suppress(RuntimeWarning):  # the user may have turned warnings into errors
            warnings.warn(text, RuntimeWarning, stacklevel=2)


@cache
def forward() -> None:
    """Sends the warnings of this process to the driver, if Spark has started the process."""
    import socket

    if not is_sparks():
        return
    warnings.filterwarnings("always", category=RuntimeWarning, module=r"downconvert\.spark\.")
    shown: Any = warnings.showwarning

    def send(message: Warning | str, category: type[Warning], filename: str, *rest: Any) -> None:
        if filename.startswith(OURS):
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(str(message).encode()[:TEXT_MAX], os.environ.get(PLACE, ""))
                return
        shown(message, category, filename, *rest)

    warnings.showwarning = send  # type: ignore[assignment]
