"""The folders of the built suites and of their output, and the beginning of the document."""

from pathlib import Path
from typing import Final

BUILD: Final = Path(__file__).parents[1] / "build" / "judges"
FAILED: Final = BUILD / "failed"
TEMPLATE: Final = Path(__file__).parent / "judges.md"
