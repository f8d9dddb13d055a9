"""Target protocol, discovery by entry point, bundle writing."""
