"""The egress proxy of sandboxes with an allowlist. A program of its own: it runs in a container of
its own, with the standard library only, and imports nothing from outside of this folder."""
