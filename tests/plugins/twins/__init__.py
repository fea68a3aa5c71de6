"""A plain twin for every plugin: one node at a time, written from the rules to be read.

Twins share no code with the plugins but the objects that both read. The properties in `tests/plugins` say that plugin
and twin agree on random clusters; the conformance runner puts both to upstream's cases.
"""
