"""The lowest floor: how kernels are compiled and kept, arithmetic with the same bits everywhere, arrays of models."""
