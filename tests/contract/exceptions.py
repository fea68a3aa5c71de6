"""Where the embedded server differs from the real one: the whole list, each entry with its reason.

A test named here is expected to fail on the embedded server; when it passes there, the run fails until the entry goes.
What the embedded server refuses by name is tested in `test_refusals`.
"""

from __future__ import annotations

# Name of the test (or of one of its cases, as test[case]): why the embedded server does otherwise.
EMBEDDED: dict[str, str] = {
    "test_bind_through_the_namespace": (
        "every client binds through pods/NAME/binding; the collection bindings is refused by name"
    ),
    "test_defaults_are_seen_on_what_was_stored_before": (
        "objects are kept as encoded: a default that is added to a definition shows with an object's next write"
    ),
    "test_a_mutating_policy": "typed objects in CEL are not evaluated; mutatingadmissionpolicies is refused by name",
    "test_quota_is_counted_after_the_webhooks": "quotas are not enforced; resourcequotas is refused by name",
    "test_yaml_answers": "answers are JSON; kubectl -o yaml converts them itself",
    "test_an_answer_in_a_form_nobody_has": "the refusal lists the forms that this server has",
}
