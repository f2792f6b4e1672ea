"""Writes the files of a log: syncs them, replaces them in one step, and opens them when they are
used."""
