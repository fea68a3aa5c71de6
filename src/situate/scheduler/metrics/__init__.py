"""kube-scheduler's metrics under its own names.

`metrics` counts and times, `scrape_collector` reads queue and cache when Prometheus scrapes, and `plugin_timing`
samples the duration of plugins.
"""
