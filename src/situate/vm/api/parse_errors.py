"""Error values for unusable fields of objects, and a reader for plain data that finds them.

Everyone who may patch a Pod can write its annotations. So the result for any content is a value or an `Unreadable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

import msgspec

from situate.framework.pod.resources import MOST
from situate.objects.settings.section import did_you_mean, shown
from situate.objects.values.quantity import BadQuantity, Quantity, decode_quantity

T = TypeVar("T")
_QUANTITY: Final = 'a Kubernetes quantity such as "250m" or "1Gi"'
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One error in one object; `str()` is the sentence for its author."""

    about: str
    """The object: `pod default/web`."""
    field: str
    found: str
    """The value, shortened; empty if absent."""
    allowed: str
    step: str = ""
    """Next step, if it adds to `allowed`."""

    def __str__(self) -> str:
        found = f"found {self.found}" if self.found else "missing"
        step = f"; {self.step}" if self.step else ""
        where = f"{self.about}: {self.field}" if self.field else self.about
        return f"{where}: {found}, allowed: {self.allowed}{step}"


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """Result of reading an object."""

    value: T | None
    """None: no usable value. The first of `wrong` gives the reason."""
    wrong: tuple[Unreadable, ...] = ()
    """With a value: the parts that were left out."""


class Place(msgspec.Struct, frozen=True):
    """Location of a text or a value."""

    about: str
    field: str

    @classmethod
    def annotation(cls, about: str, name: str) -> Place:
        return cls(about, f'metadata.annotations["{name}"]')

    def at(self, key: str) -> Place:
        return Place(self.about, f"{self.field}.{key}" if self.field else key)

    def of(self, inner: Unreadable) -> Unreadable:
        """Return an error of a text that was read without its location, with this location added."""
        between = "." if self.field and inner.field and not inner.field.startswith("[") else ""
        return replace(inner, about=self.about, field=f"{self.field}{between}{inner.field}")

    def unreadable(self, value: object, allowed: str, step: str = "") -> Unreadable:
        return Unreadable(self.about, self.field, "" if value is _ABSENT else shown(value), allowed, step)


NOWHERE: Final = Place("", "")


def sayable(value: object) -> object:
    """Return JSON with U+FFFD for each half of a surrogate pair, `"\\ud800"`.

    Such text can be received, but not encoded.
    """
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [sayable(each) for each in value]
        case dict():
            return {sayable(key): sayable(each) for key, each in value.items()}
    return value


class Misread(Exception):
    """Carries an `Unreadable` to the public function that returns it. No public function raises it further."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(str(unreadable))
        self.unreadable = unreadable


class Part(msgspec.Struct, frozen=True):
    """A value of plain data and its location. Every method raises `Misread` for absent or wrong data.

    A struct, like `Place`, for speed: each field that is read creates one of both.
    """

    place: Place
    value: object

    @classmethod
    def of_text(cls, text: str, place: Place) -> Part:
        """Parse JSON text."""
        try:
            return cls(place, msgspec.json.decode(text))
        except (msgspec.DecodeError, ValueError, RecursionError) as problem:
            said = "the JSON is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
            raise Misread(place.unreadable(text, "JSON", said)) from problem

    @property
    def there(self) -> bool:
        """Whether it is neither absent nor null."""
        return self.value is not _ABSENT and self.value is not None

    def __getitem__(self, key: str) -> Part:
        """Return a field, possibly absent. Null has only absent fields, as in Kubernetes."""
        members = self.mapping() if self.there else {}
        return Part(self.place.at(key), members.get(key, _ABSENT))

    def mapping(self) -> Mapping[str, object]:
        if not isinstance(self.value, Mapping):
            raise self.misread("a mapping")
        return self.value

    def only(self, *known: str) -> None:
        """Check that the mapping has no other keys."""
        for key, value in self.mapping().items():
            if key not in known:
                hint = did_you_mean(key, known)
                at = self.place.at(key)
                raise Misread(at.unreadable(value, f"only the keys {', '.join(known)}", hint))

    def items(self) -> tuple[Part, ...]:
        if not isinstance(self.value, list | tuple):
            raise self.misread("a list")
        return tuple(
            Part(Place(self.place.about, f"{self.place.field}[{number}]"), each)
            for number, each in enumerate(self.value)
        )

    def text(self, *, default: str | None = None) -> str:
        if not self.there and default is not None:
            return default
        if not isinstance(self.value, str):
            raise self.misread("text")
        return self.value

    def choice(self, *known: str) -> str:
        value = self.value
        if not isinstance(value, str) or value not in known:
            hint = did_you_mean(value, known) if isinstance(value, str) else ""
            raise self.misread("one of " + ", ".join(known), hint)
        return value

    def integer(self, least: int = 0, most: int = MOST) -> int:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.misread(f"an integer from {least} to {most}")
        return value

    def milli(self, least: int = 0) -> int:
        """Return a quantity in thousandths, rounded up."""
        return self._bounded(self.quantity().milli_value, least, "m")

    def units(self, least: int = 0) -> int:
        """Return a quantity in whole units, rounded up."""
        return self._bounded(self.quantity().value, least, "")

    def quantity(self) -> Quantity:
        if not self.there:
            raise self.misread(_QUANTITY)
        try:
            return decode_quantity(Quantity, self.value)
        except BadQuantity as problem:
            raise self.misread(_QUANTITY, str(problem)) from problem

    def misread(self, allowed: str, step: str = "") -> Misread:
        return Misread(self.place.unreadable(self.value, allowed, step))

    def _bounded(self, amount: int, least: int, unit: str) -> int:
        if not least <= amount <= MOST:
            raise self.misread(f"a quantity from {least}{unit if least else ''} to {MOST}{unit}")
        return amount
