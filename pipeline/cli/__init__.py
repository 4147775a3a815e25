"""The commands of ``resonance``, one file each; their work is done in other packages, for programs to call as well."""
