"""Placing by configured predicates and priorities, as Knative's scheduler did up to v0.43.0 (its *policy era*)."""
