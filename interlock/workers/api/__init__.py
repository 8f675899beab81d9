"""The HTTP API: what `Client` does, for producers and tools in any language."""
