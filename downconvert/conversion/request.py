"""The parameters of a conversion: a target format, an offset, a policy, and the aborted
transactions of this one range.

Not here: the records (records.files.source)."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from .policy import AbortedTransaction, ConversionPolicy


class Request(NamedTuple):
    """Messages of format `to_magic`, from `first_offset` on. `aborted`: in any order."""

    to_magic: int
    first_offset: int
    policy: ConversionPolicy
    aborted: tuple[AbortedTransaction, ...] = ()

    @classmethod
    def of(
        cls,
        to_magic: int,
        first_offset: int,
        policy: ConversionPolicy,
        aborted: Iterable[AbortedTransaction],
    ) -> Self:
        """Raises ValueError if there are aborted transactions and the policy does not leave them
        out."""
        transactions = tuple(aborted)
        if transactions and policy.isolation != "read_committed":
            raise ValueError('aborted transactions need isolation="read_committed"')
        return cls(to_magic, first_offset, policy, transactions)
