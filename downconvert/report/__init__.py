"""What reports have in common: how pages look, and how they are written."""
