"""Records from Kafka to the processing thread: Faust's app, chunks, and connections."""
