"""What several environments use: names, copying of trees, finishing under cancellation."""
