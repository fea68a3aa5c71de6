"""Where agents and pods ask for room, and everybody why there is none: HTTP on port 10299 (2.5, B28, B34, B39, B41).

What is said is decided elsewhere (`situate.vm.protocol.permit_request`, `permit_answers`, `explaining`); here is who
is answered (`callers`), what is written before (`permits`, `resizing`), how long it is waited (`rounds`), and the port
(`service`).
"""
