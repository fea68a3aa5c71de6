"""The executor: one replica of an operator that runs handlers for its assigned objects.

Input: the objects of the watch, and the handler of the operator. Output: handler runs and fenced writes.
Read `config` (identity, retries and intervals), then `next_step` (start, stop, release or wait for one object).
Both modules are free of I/O. `controller` performs the steps against the API server.
`kopf_progress` reads and writes the attempts that Kopf stores in the status of an object.
"""
