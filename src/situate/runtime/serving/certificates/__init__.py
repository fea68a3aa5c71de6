"""Certificates of an admission webhook: created, announced, renewed and rotated without a restart.

`renewal_schedule` decides each step from the Secret and the clock. `issue` creates keys and certificates.
`secret_controller` runs the plan while this process leads. `webhook_presence` reports whether the API server has the
webhook's configuration.
"""
