"""Records in files: reading them, guessing settings from them, producing them onto a topic."""
