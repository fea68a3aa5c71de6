"""Implement `situate scheduler`: explain placements, answer what-if questions, compare profiles.

Begin at `commands`.
"""
