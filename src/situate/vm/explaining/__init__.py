"""What is told of the ledger to people and programs, and what it would become: plain data of plain functions.

Nothing changes by asking (B41): `pods` and `nodes` say what is, `what_if` runs the same steps on a state that is
dropped. Who may ask is the server's to say.
"""
