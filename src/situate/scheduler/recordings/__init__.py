"""Recordings of a cluster: recorded from watches, stored in files, replayed under another profile.

`recorder` watches, `format` defines the lines, `files` stores them in bounded parts, and `replay` schedules them again
and compares placements.
"""
