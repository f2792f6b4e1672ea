"""The records of the brokers' own topics, `__consumer_offsets` and `__transaction_state`."""
