"""What all sealed values have in common: nothing can be read from them by accident."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Sealed"]


class Sealed:
    """Base of everything that holds exact values: no reading, testing, comparing, hashing or copying.

    A seal prevents accidents, not intent: subclasses keep exact values in attributes with a leading underscore,
    show only public facts in their ``repr``, and offer operations whose sensitivity is proved.

    Privacy
    -------
    In: private. Out: nothing. Only the curator opens a seal, and charges first.

    Examples
    --------
    >>> bool(Sealed())
    Traceback (most recent call last):
    ...
    TypeError: Sealed values cannot be tested; ask the curator to test or choose.
    """

    __slots__ = ()

    def __array__(self, *args: object, **kwargs: object) -> Any:
        raise TypeError("Sealed values cannot be read; ask the curator to measure them.")

    def __float__(self) -> float:
        raise TypeError("Sealed values cannot be read; ask the curator to measure them.")

    __int__ = __index__ = __complex__ = __iter__ = __float__  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("Sealed values cannot be tested; ask the curator to test or choose.")

    def __eq__(self, other: object) -> bool:
        raise TypeError("Sealed values cannot be compared; ask the curator to choose or test.")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise TypeError("Sealed values cannot be pickled or copied out of their process.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"
