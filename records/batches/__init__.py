"""Batches: reading, building, decompressing."""
