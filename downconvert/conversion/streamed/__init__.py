"""Converts the items that the kernel leaves to Python: compressed entries that it does not convert
at once, and items that are larger than its chunks."""
