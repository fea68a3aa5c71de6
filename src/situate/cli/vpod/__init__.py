"""Implement `situate vpod`: placements, their reasons, and the next decisions. Begin at `commands`."""
