"""Decisions on capacity: one event in, the next state and the writes out.

The controller and the scheduler plugin pass each event to `Ledger`, which calls `step`.
The controller then takes the resulting actions and carries them out.
Read `ledger` first, then `step`, the function behind every decision, and `transaction`, the state during one step.
Then follow an event: `observed` applies it, `grants` serves waiting requests, and `migrations` updates the migrations.
`initial_listing` handles the end of the first listing, and `deadlines` handles the passing of time.
`notifications` adds Events and conditions for users. `neon_compat` replaces grants and plans in `compat` mode.
"""
