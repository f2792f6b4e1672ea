"""Measurements. Each file begins with the question that it answers. `python -m bench.<name>
--help`."""
