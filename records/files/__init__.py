"""Records in files and in memory, and sends of them."""
