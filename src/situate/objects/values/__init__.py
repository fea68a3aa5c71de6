"""Values inside fields: quantities, durations, timestamps, booleans, and how messages show them."""
