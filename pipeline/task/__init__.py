"""What a partition task does with records: decode, prepare, learn, answer, encode; no Kafka and no clock."""
