"""Reports on a phone, for the tests of each report."""

from pathlib import Path

from bench.screenshots import browser, phone_overflow

from .programs import REQUIRED


def check_fits_a_phone(page: Path) -> None:
    """AssertionError: a reader with a phone has to scroll sideways. Without Chromium nothing is
    checked."""
    if browser() is not None or REQUIRED:
        assert phone_overflow(page) == 0
