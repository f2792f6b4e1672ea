"""Limits of a conversion that bind in a log of some kilobytes. By default, megabytes are needed.

No limit may change the bytes that are sent, except ENOUGH. That one is for all clients of a log.

Not here: what is in the log (any_log.py)."""

from random import Random
from types import ModuleType
from typing import Any, Final

import pytest

from downconvert.conversion import buffers, converter, filler, made, plan, send
from downconvert.conversion.engine import COUNTED, IN_MEMORY
from downconvert.conversion.streamed import body, compressed, large, oversize
from records.batches import compressed as decompressed

# Module, name, and values beside the default.
LIMITS: Final[tuple[tuple[ModuleType, str, tuple[Any, ...]], ...]] = (
    (plan, "ENOUGH", (300, 3_000, 3_000)),
    # Small logs are also planned as large ones: measured first, and made only then.
    (plan, "SMALL_SIZE_MAX", (1_000,)),
    (plan, "SMALL_STEP_SIZE", (500,)),
    (plan, "STEP_SIZE", (500,)),
    (plan, "KAFKA_READ_SIZE_MAX", (1, 2_000)),
    (made, "HELD_SIZE_MAX", (1_000,)),
    (converter, "MEASURED_CHUNK_SIZE", (400,)),
    (converter, "MESSAGES_SIZE", (500,)),
    (converter, "MEASURING", (((COUNTED, 700), (IN_MEMORY, 300)),)),
    (send, "UNPRODUCTIVE_MAX", (1, 100_000)),
    (filler, "FILLER_SIZE_MAX", (100,)),
    (buffers, "SPARES_MAX", (0, 1)),
    (buffers, "SIZE_MAX", (1_000,)),
    (compressed, "WINDOW_SIZE_MAX", (1_000, 5_000)),
)
STEPS: Final = body, large, oversize, decompressed  # have a copy of STEP_SIZE
STEP_SIZES: Final = (4_000,)


def any_limits(random: Random, patch: pytest.MonkeyPatch) -> None:
    """Some limits bind."""
    for module, name, values in LIMITS:
        patch.setattr(module, name, random.choice((*values, getattr(module, name))))
    step_size = random.choice((*STEP_SIZES, decompressed.STEP_SIZE))
    for module in STEPS:
        patch.setattr(module, "STEP_SIZE", step_size)
