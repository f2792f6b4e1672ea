"""The promises of a send, kept whatever else is under way: a log, and what its clients get."""
