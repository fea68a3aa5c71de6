"""Pace of calls: `rate_limiter` before a call, `retries` and `backoff` after a failed one."""
