"""Histories of the scheduler: its shipped controller under faults on virtual time, and the invariants to hold."""
