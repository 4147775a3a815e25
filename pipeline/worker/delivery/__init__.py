"""Delivery of outputs, snapshots and offsets to Kafka: exactly once, or at least once."""
