"""Modal clustering of a stream: clusters are the hills of the density, whatever their shape."""
