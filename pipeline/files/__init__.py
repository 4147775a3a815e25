"""Record files: reading them, suggesting settings from them, and producing them onto a topic."""
