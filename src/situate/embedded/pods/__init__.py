"""Pods as processes of this machine, for trying an operator without containers.

`processes` plays the kubelet: it starts, probes and stops a process per container. `local_programs` maps image names to
programs.
"""
