"""One process from start to stop.

`startup` chooses the event loop and the memory settings of `memory`. `manager` starts the services in order and stops
them within a bound. `logs` formats log lines; `health` answers probes and serves metrics.
"""
