"""The HTTP side of the embedded API server.

`listener` accepts clients, `connection` serves the requests of one client in order, and `http1` parses requests without
I/O. `frontend` passes each request to the in-memory API server; `identities` authenticates it. `watch_stream` writes
one watch in batches. `fault_routes` adds paths by which tests and the demo inject faults.
"""
