"""Histories of sharding: what must hold in them. The events of a log are in `events`, the rules in `invariants`."""
