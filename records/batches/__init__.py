"""Batches: read, made, decompressed."""
