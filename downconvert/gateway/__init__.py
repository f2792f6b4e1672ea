"""Old clients in front of a Kafka cluster that no longer takes their requests."""
