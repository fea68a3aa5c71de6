"""The API server without I/O, and the cluster that joins it with the controllers.

A request, a time and an identity go in. A response or a watch comes out. While a request waits for webhooks, the server
yields the calls to its host, such as `situate.embedded`.

Read `api` first: it routes each request to the folders `read` and `write`. Then read `assembly` for a whole cluster,
and `controller_writes` for the path from controllers to the API. `discovery`, `openapi` and `api_documents` describe
served resources. `tokens` and `reviews` answer questions about identity, and `protobuf` decodes bodies of Go clients.
`faults` holds the delays and errors that a test injects.
"""
