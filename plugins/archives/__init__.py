"""Archives and trees of unknown origin: reading and writing them without being led astray."""
