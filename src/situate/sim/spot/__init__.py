"""Waves on a simulated cluster: spot's shipped decisions and the alternatives, under the same random choices (B33)."""
