"""The built-in analyzers: cheap, and looking at nothing but the stored result."""
