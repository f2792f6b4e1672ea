"""Records in files and in memory, and how they are sent."""
