"""Changes of stored states that somebody asks for, and the named stops that tell them to."""
