"""Measurements: each file opens with the question that it answers. `python -m bench.<name>
--help`."""
