"""Packing studies on openb, the trace of a GPU cluster: how much of it policies give out, and how much they break.

`python -m bench.openb` is the command; `docs/guides/scheduler/share-gpus.md` is the page.
"""
