"""The memory that the members of all groups take, with the names of groups and new member ids.

Each group has its own limits. There may be 100,000 groups, so all together have a limit, too.

Not here: the limits of one group (joining.py)."""

from typing import Final

from records.logged import log_of
from records.units import format_size

LOG: Final = log_of(__name__)


class MemberMemory:
    """Bytes. The owner of all groups holds a lock around every call."""

    def __init__(self, size_max: int = 2**63 - 1) -> None:
        self.size = 0
        self.size_max = size_max
        self._is_logged = False

    def has_room(self, more: int) -> bool:
        """Whether this many bytes may be added. The first refusal is logged. Later ones are not,
        until half of the memory is free."""
        if more <= 0 or self.size + more <= self.size_max:
            self._is_logged = self._is_logged and self.size > self.size_max // 2
            return True
        if not self._is_logged:
            self._is_logged = True
            LOG.warning(
                "the members of all groups take %s, and more are refused (groups_memory_max_bytes)",
                format_size(self.size),
            )
        return False
