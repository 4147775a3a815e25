"""Dead letters after a fix: read, kept account of, and sent again."""
