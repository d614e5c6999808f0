"""pipeloom."""
