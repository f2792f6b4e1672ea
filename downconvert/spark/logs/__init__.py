"""The copies of partitions: where they are, and which offsets they hold."""
