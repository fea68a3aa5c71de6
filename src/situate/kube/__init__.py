"""The client for the Kubernetes API.

`connect` finds the server as kubectl does and returns a `client`, whose calls are typed. Below it, `login` reads
credentials, `transport` carries requests, and `retry` paces them. On top, `watch` keeps a local copy of a resource,
`election` elects a leader, `events` records Events, and `queries` asks the server about itself. `errors` says how each
call can fail and whether a retry helps.
"""
