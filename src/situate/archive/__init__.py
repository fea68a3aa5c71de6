"""Where completed objects are kept: the protocol `Archiver`, and the stores that have it.

Records, queries and errors are plain values; each store is a file of its own, imported by whoever opens it.
"""
