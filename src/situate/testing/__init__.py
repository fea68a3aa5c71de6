"""Public: builders, fixtures, the virtual clock and invariants for users who test their own policies."""
