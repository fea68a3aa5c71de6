"""Histories of the scheduler: its shipped controller under faults on virtual time, and what must hold meanwhile."""
