"""Fencing: the API server refuses writes of an executor or a supervisor that lost its right to write.

Input: the stored object and a write request. Output: admitted, or a `Refusal` with its text.
Read `admit` first: one pure function holds all conditions.
Then read `admission_policy`: it states the same conditions in CEL, as ValidatingAdmissionPolicies for the API server.
`refusals` recognises such a refusal in an error and names the next step.
"""
