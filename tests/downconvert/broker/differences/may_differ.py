"""Where responses of `serve` may differ from those of Kafka 3.9.1, and why.

docs/differences.md shows this list; a test keeps the two equal. Nothing else may differ.

Not here: what is no difference, such as the ids that each server gives (answers.py)."""

from typing import Final

from .connections_may_differ import CONNECTIONS
from .coordinators_may_differ import COORDINATORS
from .records_may_differ import RECORDS
from .topics_may_differ import TOPICS
from .users_may_differ import USERS_MAY_DIFFER
from .waits_may_differ import WAITS

MAY_DIFFER: Final = (
    *CONNECTIONS,
    *RECORDS,
    *WAITS,
    *TOPICS,
    *COORDINATORS,
    *USERS_MAY_DIFFER,
)
