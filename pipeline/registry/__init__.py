"""The Schema Registry: schemas of the input by their ids, and the registration of those of the outputs."""
