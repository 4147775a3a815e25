"""Decodes messages into records that can be learned, and says what is wrong with the others."""
