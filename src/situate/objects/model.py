"""The base class of Kubernetes objects as Python values."""

from __future__ import annotations

import msgspec


class Model(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A frozen struct of the fields that situate reads; decoding skips unknown fields.

    An object is therefore never written back as a whole: writes are patches or subresources. An object that must
    survive unchanged is passed on as `situate.objects.kinds.unstructured.Unstructured`. Values contain no cycles, so
    the garbage collector need not visit them.
    """
