"""The state of a transcoder between calls.

Not here: using it (log.py, inside.py)."""

from dataclasses import dataclass, field
from typing import Protocol

from records.formats import Codec
from records.kernel import Recodes, Transcoder

from .account import Account
from .places import Batch, Entries, Inside


@dataclass(slots=True)
class State:
    """The constructor's arguments, and the transcoder's place."""

    to_magic: int
    first_offset: int
    pass_codecs: int  # a bit mask
    stop_transactional: bool
    recodes: Recodes
    place: Batch | Entries | None = None  # None between the entries of a log
    is_accepted: bool = False  # the next entry needs no decision
    account: Account = field(default_factory=Account)

    def trims(self, *, is_wrapper: bool) -> bool:
        """Whether records below the first offset are dropped."""
        return self.recodes.trim or not is_wrapper

    def drops(self, place: Inside, offset: int) -> bool:
        """Whether a record is below the first offset and dropped."""
        return offset < self.first_offset and self.trims(is_wrapper=place.is_wrapper)


class Stateful(Transcoder, Protocol):
    """A transcoder whose state the functions of this folder change."""

    @property
    def state(self) -> State: ...
    def recode_into(self, entry: memoryview, codec: Codec | None, size_max: int) -> bytes | None:
        """Like `recode`. Also None if the messages are more than `size_max` bytes. Without a codec
        they are not compressed."""
