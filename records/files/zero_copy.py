"""Sends a range of a file unchanged: with sendfile from the page cache to a plain socket, through a
bounded buffer to everything else.

Not here: converting (downconvert)."""

import errno
import os
from io import FileIO
from typing import TYPE_CHECKING, Any, Final, Protocol

from records.errors import CorruptRecordsError
from records.units import KiB

from .channel import is_plain_socket
from .sends import PendingBytes
from .source import TRUNCATED, Records

if TYPE_CHECKING:
    from socket import socket

BUFFER_SIZE: Final = 64 * KiB  # bytes; as large as the pipe that sendfile uses

# sendfile's errors if it does not support this pair of file and socket.
NOT_SUPPORTED: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP}


class FileRange(Records, Protocol):
    """Records in a file."""

    @property
    def file(self) -> FileIO:
        """The open file. ClosedRecordsError: it has been closed."""


class ZeroCopySend:
    """Sends a range of a file. It never sends a byte after the range."""

    __slots__ = (
        "_channel",
        "_copied",
        "_error",
        "_records",
        "_sendfile",
        "_sent",
        "_spare",
        "size",
    )

    def __init__(self, records: FileRange) -> None:
        self._records = records
        self.size = records.size
        self._sent = 0
        self._error: CorruptRecordsError | None = None
        self._channel: Any = None
        self._sendfile = False
        self._spare = memoryview(b"")  # the buffer, once it is needed
        self._copied: PendingBytes | None = None  # bytes in the buffer that were not taken yet

    @property
    def remaining(self) -> int:
        return self.size - self._sent

    @property
    def completed(self) -> bool:
        return self._sent == self.size

    def copy_to(self, buffer: memoryview) -> bool:
        """Copies the whole range to the beginning of `buffer` and sends nothing. The caller sends
        the bytes and calls `skip`. False if it cannot copy; `write_to` then raises the reason."""
        return self._records.read_into(buffer[: self.size], 0) == self.size

    def skip(self, size: int) -> None:
        """Counts bytes that were sent in another way. Call this before any `write_to`."""
        self._sent += size

    def write_to(
        self,
        channel: Any,
        budget: int | None = None,  # noqa: ARG002  (one write takes what there is room for)
    ) -> int:
        """Writes the bytes that the channel takes now, in one write. 0 means "not now".

        CorruptRecordsError: the file has become shorter than the range. The error stays even if the
        file grows again, because the new bytes are different ones. ClosedRecordsError: the file has
        been closed."""
        if self.completed:
            return 0
        if self._error is not None:
            raise self._error.with_traceback(None)
        if channel is not self._channel:
            self._channel = channel
            self._sendfile = is_plain_socket(channel)
        # A socket with a timeout does not block; only its own `send` waits for it.
        if self._sendfile and not channel.gettimeout():
            written = self._send_file(channel)
        else:
            written = self._send_copy(channel)
        self._sent += written
        if self.completed:
            self._release()
        return written

    def _release(self) -> None:
        self._spare, self._copied = memoryview(b""), None

    def _truncated(self) -> CorruptRecordsError:
        self._release()
        self._error = CorruptRecordsError(TRUNCATED, self._records.origin + self._sent)
        return self._error

    def _send_file(self, channel: "socket") -> int:
        self._copied = None
        at = self._records.origin + self._sent
        file = self._records.file  # held during the call: another thread may close it
        try:
            written = os.sendfile(channel.fileno(), file.fileno(), at, self.remaining)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
            self._sendfile = False
            return self._send_copy(channel)
        if not written:
            raise self._truncated()
        return written

    def _send_copy(self, channel: Any) -> int:
        if self._copied is None:
            self._copied = PendingBytes()
        if not self._copied.left:
            if not self._spare:
                self._spare = memoryview(bytearray(min(BUFFER_SIZE, self.remaining)))
            read = self._records.read_into(self._spare[: self.remaining], self._sent)
            if not read:
                raise self._truncated()
            self._copied.left = self._spare[:read]
        return self._copied.write_to(channel)
