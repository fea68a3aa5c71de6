"""Results of simulated runs: service and cost of one run, a report over many, and a picture."""
