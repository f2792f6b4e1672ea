"""What is compared: this project, Kafka's classes, other readers and relays."""
