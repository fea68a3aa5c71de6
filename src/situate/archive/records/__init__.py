"""Records: an archived object as a plain value, with its digest, and queries over records. No I/O.

`record` is the value that every store holds. `canonical_json` gives each JSON value one spelling, so that equal objects
have equal digests. `query` holds the filter and the pages that every store must agree with. `equality` compares a live
object with its record; `restored_object` makes the object that a record becomes when it returns to the cluster.
"""
