"""Spot as a service: every replica watches; the leader answers admissions and renews certificates.

Besides `server`, this is the only package of spot that does I/O. The modules around it decide and do no I/O.
"""
