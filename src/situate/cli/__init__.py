"""The commands of situate, and the composition root of every process."""
