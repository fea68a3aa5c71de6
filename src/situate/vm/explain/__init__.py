"""Explanations of Pods and nodes, and the results of hypothetical changes.

The functions take the state of the ledger and the rules, and return plain data for the HTTP port and the CLI.
The functions repeat the decisions on a copy, so a question changes nothing.
Start with `explanations` (the unmet request of a Pod and its migrations) and `would_help` (changes that would meet it).
`pods` and `nodes` convert the result to plain data, with the shared parts in `json_values`.
`what_if` applies hypothetical changes to Pods and nodes, and reports the decisions that follow.
"""
