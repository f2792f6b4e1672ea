"""From a fetch request to the records of its response."""
