"""The reference pages match the code."""

import pytest

from bench import error_reference, metrics_reference, settings_reference

GENERATORS = (error_reference, metrics_reference, settings_reference)


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda one: one.PAGE.name)
def test_reference_pages_are_up_to_date(generator):
    output = generator.PAGE.read_text()
    assert output == generator.reference(), f"run: python -m {generator.__name__}"
