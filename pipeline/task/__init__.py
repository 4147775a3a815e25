"""The partition task: decodes, prepares and learns records and encodes the outputs, without Kafka or a clock."""
