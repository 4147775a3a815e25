"""Two deployments on the same input: what sets their outputs apart, and how the models of one go on in the other."""
