"""The admission webhook as a process serves it: HTTPS, certificates, metrics. A shell: nothing is decided here."""
