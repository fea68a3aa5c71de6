"""An operator that builds Python applications: a Build's sources are compiled, tested and packed into one file."""
