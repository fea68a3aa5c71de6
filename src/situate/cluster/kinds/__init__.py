"""The semantics of each kind: types, defaults, rules on write and validation.

The body of a built-in or custom object goes in. The object with its defaults comes out, or a list of field errors.

Read `semantics` first: it gives built-in and custom kinds one interface. Then follow a body through its steps.
`schemas` decodes it, `defaults` and `defaults_pods` complete it, `rules` prepares status and generation, and
`validation` validates it. `structural` does the same work for custom resources.
`custom_resources` serves the resource of a CustomResourceDefinition and removes the objects when you delete it.
"""
