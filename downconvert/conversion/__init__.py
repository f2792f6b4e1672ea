"""The conversion: which batches are kept, how much fits, and bytes a chunk at a time."""
