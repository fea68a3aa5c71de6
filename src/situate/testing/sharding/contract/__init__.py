"""Whether an executor, whatever it is written in, keeps what docs/reference/executor-contract.md asks of it on the
wire.

`python -m situate.testing.sharding.contract --command "…"` starts an API server and the executor's process, plays the
supervisor's part, and names each rule that is kept or broken. The rules are in `rules`, the parts that are played in
`parts`, server and process in `place`.
"""
