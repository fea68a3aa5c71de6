"""The writes and signals of the leader: patches, conditions, Events, metrics and its report.

Input: decisions of the current term. Output: requests to the API server, log lines and metrics.
Read `writer` first: it sends a write only while no other process can lead.
`notify` counts and logs writes, and sends Events. `conditions` writes status conditions after a short delay.
`figures` adds up the state of the supervisor. `metrics` shows the figures to Prometheus.
`status_report` writes the figures to the Lease and confirms versions of the table of partitions.
"""
