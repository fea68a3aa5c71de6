"""Implement `situate demo`: play a story on a cluster through its API, and draw the cluster meanwhile."""
