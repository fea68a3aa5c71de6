"""Stores: one package per kind of storage, each behind the protocol `situate.archive.protocol.Archiver`.

`open_archive` imports a store only when a URL names it, so only its users need its extra. `memory` is the simplest
store; read it first. `stored_bytes` decides whether a write may replace the bytes already stored under a key.
"""
