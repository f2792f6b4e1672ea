"""What answers each request: one file an API."""
