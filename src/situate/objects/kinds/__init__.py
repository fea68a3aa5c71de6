"""Kubernetes kinds as frozen values: the fields that schedulers and controllers read. One module per subject.

`meta` holds the parts shared by all kinds. `unstructured` keeps every field of an object of any kind.
"""
