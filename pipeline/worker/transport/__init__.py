"""Records from Kafka to the thread that learns: Faust's app, chunks, and connections."""
