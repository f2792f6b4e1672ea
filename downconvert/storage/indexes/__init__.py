"""The index files of a segment."""
