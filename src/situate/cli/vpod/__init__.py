"""`situate vpod`: what is placed where, why, and what would be done. Begin at `commands`."""
