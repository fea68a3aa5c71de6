"""Spot as a service: it watches always, answers admissions and keeps certificates while it leads.

The one shell of the product beside `server`; what is decided lies in the modules around it, which do no I/O.
"""
