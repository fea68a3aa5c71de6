"""A read-only, Kubernetes-style endpoint over what is live and what is archived: `situate shard archive serve`.

What a request asks for (`asked`), and how answers look (`answers`, `tables`), is plain functions. Who asks and what he
may do is the API server's to say (`access`), live objects are read from it (`live`).
"""
