"""Reads the bytes of a split into rows."""
