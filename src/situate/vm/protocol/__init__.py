"""Requests from agents, Pod owners and API servers, without I/O: parse them, reject them and create the answers.

The server passes the text of a request and the state of the ledger. The functions return answers, errors and patches.
Start with `permit` (the granted size and the reason for a smaller one).
Then read `permit_request` (the agent's request) and `permit_response` (the time to answer, and the answer).
`resize_request` handles `POST /resize` for a plain Pod.
`eviction_review` reads evictions and answers them. `eviction_webhook_objects` creates the webhook and the budgets.
"""
