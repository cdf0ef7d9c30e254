"""Numbers that trusted code computes from the records: errors and slacks of acceptance criteria, moments of regressions, accounted measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from understudy.curator import Curator, SealedScalar
from understudy.curator.sealed import NO_MEMORY
from understudy.data import Table
from understudy.errors import BudgetError, LookFailed

__all__ = ["seal_numbers"]


def seal_numbers(
    curator: Curator,
    function: Callable[[Table], Sequence[int | float | Fraction]],
    *,
    sensitivities: Sequence[float],
) -> list[SealedScalar]:
    """Seal several numbers that trusted code computes from the records in one look.

    This is no method of the curator because mechanisms have a curator: a function that gets the table could keep what it sees. Only the release imports it.

    Parameters
    ----------
    function
        Gets the private table, limited to the unit's rows per person, and returns one number per
        sensitivity: whole, a fraction, or a double that is exact or whose distance from the exact number, twice,
        is part of the sensitivity. It runs here and keeps nothing: no reference to the table or to anything computed from
        it may outlive the call. It answers for every table, so whatever can be refused is refused before.
        What is not finite is one end of the range of sealed numbers.
    sensitivities
        The most that one unit can change each number as returned. Public.

    Raises
    ------
    LookFailed
        If the function fails all the same. Nothing was charged; whatever the error says is not shown.

    Privacy
    -------
    In: private. Out: under seal. **The function is trusted code**: that its numbers move by no more than
    claimed is proved where it is written (an acceptance criterion states its proof in its docstring) and
    tested on neighbouring tables there. That it failed can be seen, and costs nothing: a function that fails for some tables and not for others tells them apart.
    """
    found: list[SealedScalar] | None = None
    full = False
    try:
        # what is no number is found here too: its text would be in the error
        found = [SealedScalar(number, sensitivity=1.0) for number in function(curator._table)]
    except MemoryError:  # NumPy's says how large the array was
        full = True
    except Exception:
        found = None
    # outside the handlers: these errors do not carry the other one as their context
    if full:
        raise MemoryError(NO_MEMORY)
    if found is None:
        raise LookFailed(
            "A number could not be computed from the records. Nothing was charged for it, and what went wrong is not shown because it "
            "may depend on them. The function that computes it must answer for every table."
        )
    if len(found) != len(sensitivities):
        raise BudgetError(
            f"A function of the records must return {len(sensitivities)} numbers, one for each sensitivity, whatever the records are."
        )
    return [SealedScalar(item._exact, sensitivity=s) for item, s in zip(found, sensitivities, strict=True)]
