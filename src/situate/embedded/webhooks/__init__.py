"""Calls from the embedded API server to admission webhooks.

`calls` sends AdmissionReviews over HTTPS. `service_addresses` resolves a Service to an address of this machine, because
cluster addresses are not routed here.
"""
