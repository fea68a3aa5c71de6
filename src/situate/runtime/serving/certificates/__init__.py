"""Certificates of an admission webhook: created, announced, renewed and rotated without a restart.

`plan` decides each step from the Secret and the clock. `issue` creates keys and certificates. `renewal` runs the plan
while this process leads. `webhook_presence` reports whether the API server has the webhook's configuration.
"""
