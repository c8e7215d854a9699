"""The commands, one module each. Heavy imports are inside the functions, for a quick ``--help``."""
