"""Another thread that sends the same range at the same time."""

from random import Random
from threading import Thread

from downconvert.conversion.send import LazyDownConvertSend
from records import RecordsError

from .channels import Bytewise


class Meanwhile:
    """Sends everything in a thread of its own."""

    def __init__(self, send: LazyDownConvertSend) -> None:
        self._send = send
        self._channel = Bytewise(Random(send.size))
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._send.completed:
                self._send.write_to(self._channel)
        except BaseException as error:
            self._error = error

    def join(self) -> bytes | None:
        """What was sent. None if the records were damaged."""
        self._thread.join()
        if self._error is not None and not isinstance(self._error, RecordsError):
            raise self._error
        return None if self._error else bytes(self._channel.taken)
