"""The capacity class of each new Pod, and the JSON patch that writes the class into the Pod.

Input: an AdmissionReview or a gated Pod, a view of its workload and its nodes, and the ledger of earlier answers.
Output: an answer that always admits the Pod, and the next ledger. Nothing here does I/O.
Read `ledger` (reservations that the watch does not show yet), `classify` (spot or on demand) and `admit` (the answer).
Then read `patch` (the operations), `patch_check` (a trial of the patch) and `admission_review` (JSON in, JSON out).
`scheduling_gates` is strict mode: the leader classes Pods that wait behind a scheduling gate.
`webhook_objects` and `policy_admission` build the cluster objects: the webhook, the gate policy, the annotation check.
"""
