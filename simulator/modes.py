"""The measured ways to answer a fetch."""

from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["lazy", "eager", "zero-copy"]
MODES: Final[tuple[Mode, ...]] = ("lazy", "eager", "zero-copy")
