"""The worker process: Faust's app, chunks, the processing thread, and both deliveries."""
