"""The keeper of an engine: ends the services of sandboxes that are gone. Runs in a container, with Python alone."""
