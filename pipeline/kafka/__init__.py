"""The Kafka cluster as the pipeline sees it: admin, bounded reads, connections, denials."""
