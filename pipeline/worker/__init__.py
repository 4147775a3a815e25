"""The process that consumes: Faust's app, chunks, the thread that learns, and both deliveries."""
