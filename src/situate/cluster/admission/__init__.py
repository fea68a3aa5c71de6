"""Admission: the plugins, policies and webhooks that can change or refuse a write between decoding and storage."""
