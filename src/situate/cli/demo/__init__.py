"""`situate demo`: a story on a cluster, played by clients of its API and drawn while it happens."""
