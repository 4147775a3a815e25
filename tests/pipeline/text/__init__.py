"""Tests of the kernels that read and write texts."""
