"""Tests whether an executor in any language follows docs/executor-contract.md on the wire.

`python -m situate.testing.sharding.contract --command "…"` starts an API server and the executor's process. It plays
the supervisor and reports each rule as kept or broken. `rules` lists the rules, `contract_checks` plays the scenes, and
`contract_environment` holds server and process.
"""
