"""The conversion selects batches, promises a size, and makes messages a chunk at a time."""
