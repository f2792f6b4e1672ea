"""The ways to answer a fetch that are measured side by side."""

from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["lazy", "eager", "zero-copy"]
MODES: Final[tuple[Mode, ...]] = ("lazy", "eager", "zero-copy")
