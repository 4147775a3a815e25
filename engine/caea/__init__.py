"""CAEA: adaptive resonance with correntropy, growing a graph of nodes from a stream."""
