"""Small text files that Kafka keeps beside logs."""
