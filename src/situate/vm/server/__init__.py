"""Where agents and pods ask for room, and everybody why there is none: HTTP on port 10299 (2.5, B28, B34, B39, B41).

What is said is decided elsewhere (`situate.vm.protocol.permit_request`, `permit_response`, `explain`); here is who
is answered (`authorization`), what is written before (`permit_handler`, `resize_handler`), how long it is waited
(`change_notifier`), and the port (`service`).
"""
