"""Waves on a simulated cluster: the shipped decisions of spot beside the other ways, with the same chance (B33)."""
