"""The contenders: this project, Kafka's classes, other readers and relays."""
