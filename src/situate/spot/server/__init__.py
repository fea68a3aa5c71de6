"""The admission webhook as a process serves it: HTTPS, certificates, metrics. It decides nothing."""
