"""Transport: carry a request to an API server and bring back its answer.

`protocol` is the interface that the client needs. `http` implements it over kept-alive HTTP/1.1 connections: `dial`
opens them (TCP, proxy, TLS), `connection_pool` keeps them, `http_connection` runs one exchange, and `http1` parses
answers without I/O. `unreachable` explains in one sentence why no answer came.
"""
