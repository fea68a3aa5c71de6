"""CEL, the expression language of admission policies, match conditions and schema rules.

The text of an expression and the types of its variables go in. A compiled program comes out, or the reason for refusal.
A library evaluates the programs. This folder adds the type checker and the functions of Kubernetes.

Read the steps of a compilation in this order: `syntax` (the tree), `types` (types and signatures), `functions`
(implementations) and `checker` (type errors). `environments` lists the variables of admission.
`programs` joins these steps; other folders mostly call this module. `policies` evaluates a ValidatingAdmissionPolicy.
"""
