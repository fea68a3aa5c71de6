"""Invariants of spot, checked at every write, at every change of a Pod or node, and after every step.

`rules` holds them. `recorder` records each Pod over time, in rows that `object_rows` reads from the objects.
`review_answers` checks each answer of the webhook.
"""
