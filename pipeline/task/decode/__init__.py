"""Messages to records: what can be learned of them, and what is wrong with the others."""
