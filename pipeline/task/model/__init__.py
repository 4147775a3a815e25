"""What is learned of one stream: preparation, engine, labels, and the lives of its clusters."""
