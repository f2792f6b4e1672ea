"""Generated directories of brokers, and the records that a reader must find in them."""
