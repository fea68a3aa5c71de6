"""Decoding: bytes of the API to frozen values, without trusting them.

`codec` is the entry. The `…_wire` modules describe Pods, containers and volumes as they arrive; they share equal parts
through `interning`, so that 100,000 Pods fit into memory.
"""
