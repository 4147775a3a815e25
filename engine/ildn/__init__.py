"""ILDN: a network of ellipsoids that follow the local distribution of a stream."""
