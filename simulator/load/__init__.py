"""A whole broker and its clients over TCP, measured."""
