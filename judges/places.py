"""Where the suites are built, where what they said stays, and how the document begins."""

from pathlib import Path
from typing import Final

BUILD: Final = Path(__file__).parents[1] / "build" / "judges"
FAILED: Final = BUILD / "failed"
TEMPLATE: Final = Path(__file__).parent / "judges.md"
