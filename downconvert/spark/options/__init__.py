"""The options of a query."""
