"""Leader election over a Lease, as client-go does it.

`lease_record` holds the rules without clock or network: which process holds the Lease and when it may be taken.
`election` runs them: acquire, renew, and stop leading before another process can start.
"""
