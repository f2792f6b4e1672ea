"""What a transcoder knows between calls.

Not here: what it does with it (log.py, inside.py)."""

from dataclasses import dataclass, field

from .account import Account
from .places import Batch, Entries


@dataclass(slots=True)
class State:
    """What it was made with, and where it stands."""

    to_magic: int
    first_offset: int
    pass_codecs: int  # a bit mask
    stop_transactional: bool
    place: Batch | Entries | None = None  # None: between the entries of a log
    is_allowed: bool = False  # the entry that is next is not asked about
    account: Account = field(default_factory=Account)
