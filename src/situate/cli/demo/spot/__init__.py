"""Chapters on spot: all spot nodes end, once after a notice and once without."""
