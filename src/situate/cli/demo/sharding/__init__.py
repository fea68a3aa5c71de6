"""Chapters on sharding: executors are killed, drained and rolled while work continues."""
