"""Measurements. Each file begins with the question that it answers. `python -m bench` lists them,
and `python -m bench.<name> --help` says how to run one. Folders hold code that several share."""
