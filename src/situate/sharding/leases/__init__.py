"""Leases: which executors are alive, and how long an executor may work.

Input: Leases, Pods and nodes as observed, and a monotonic clock. Output: `Members` for decisions, and a `Tenure`.
The supervisor waits longer than an executor works, so two executors never work on one object.
Read `membership` (the supervisor's side) and `tenure` (the executor's side) first.
`executor_report` converts the status annotation of an executor's Lease to a value, and back.
`lease_age` judges a Lease by its written times, for commands only.
"""
