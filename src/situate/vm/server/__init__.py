"""HTTP port 10299 for requests of agents and Pods for capacity, and for explanations (B28, B34, B39, B41).

`situate.vm.protocol.permit_request`, `permit_response` and `explain` decide the answers. Here are the checks of callers
(`authorization`), the writes before an answer (`permit_handler`, `resize_handler`), the waits for changes
(`change_notifier`), and the port (`service`).
"""
