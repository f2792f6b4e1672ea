"""What an operator sees, and what is done to logs in the background."""
