"""Implement `situate vm`: virtual machines that grow, shrink and move."""
