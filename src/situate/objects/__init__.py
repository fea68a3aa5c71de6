"""Kubernetes objects as frozen values: parse and dump, quantities, selectors. No I/O."""
