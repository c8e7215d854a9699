"""Analyzers that misbehave; an installed package as any third party's."""
