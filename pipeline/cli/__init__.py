"""The commands of ``resonance``, one file each; what they do stands elsewhere, so that a program can do it, too."""
