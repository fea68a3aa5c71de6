"""Kubernetes objects as frozen values, without I/O.

`kinds` holds the objects and `values` the types of their fields. `decoding` turns bytes into them without trust.
`selection` parses selectors. `reviews` holds AdmissionReviews and the like. `settings` reads typed configuration.
`resources` lists the resources that the client knows; `messages` holds HTTP requests and responses.
"""
