"""The one way in which Kubernetes objects become Python values."""

from __future__ import annotations

import msgspec


class Model(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A frozen struct of the fields that situate reads; unknown ones are skipped while decoding.

    It is therefore never written back whole: writes are patches or subresources, and what must survive is passed
    on as `situate.objects.kinds.unstructured.Unstructured`. Values hold no cycles, so the garbage collector need not
    look at them.
    """
