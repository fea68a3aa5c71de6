"""SHELL: an HTTP API server over the in-memory cluster."""
