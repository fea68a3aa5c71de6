"""The running executor: its Lease, its watch, its handlers and their writes.

Input: assigned objects and a handler. Output: handler runs, fenced patches, released or completed objects.
Read `executor` first: it connects the parts, starts them and drains at the end.
`lease` renews the Lease in a thread of its own. `readiness` decides whether handlers may run.
`objects` performs the next step of each object. `runs` is one call of a handler.
`work` is the handler's interface for fenced writes. `load` measures CPU and memory for the Lease.
`executor_options` parses flags, environment and files. `environment` supplies clocks and randomness.
`kopf_handlers` and `kopf_call` run handlers written for Kopf.
"""
