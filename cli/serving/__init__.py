"""What long-running processes offer: health, metrics and traces of workers, and the codec server."""
