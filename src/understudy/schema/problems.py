"""Helpers for error messages: collected problems, suggestions, and quoted names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.errors import Problems, SchemaError, UnderstudyError

# ----------------------------------------------------------------------------------------
# Upper limits that keep a hostile or mistaken schema file from exhausting memory.
#
# They are generous for honest schemas (a million codes in one column, five thousand columns) and are
# checked before anything of that size is built.

MAX_FILE_BYTES = 32 << 20
"""Largest schema file that is read."""

MAX_NESTING = 16
"""Deepest nesting of lists and mappings in a schema file."""

MAX_COLUMNS = 5_000
"""Most columns of one schema."""

MAX_CODES = 1_000_000
"""Most codes of one column."""

MAX_TOTAL_CODES = 10_000_000
"""Most codes of all columns together."""

MAX_DOTS = 10_000
"""Most bins that ``...`` in a list of labels may stand for."""

MAX_TEXT = 10_000
"""Longest name, label, unit or description."""

MAX_CONSTRAINTS = 1_000
"""Most record constraints of one schema."""

MAX_RULE_LENGTH = 10_000
"""Longest text of one constraint."""

MAX_RULE_DEPTH = 60
"""Deepest nesting of parentheses and operators in one constraint."""

MAX_CELLS = 10_000_000
"""Most cells of the table of allowed code combinations of one constraint."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known word, or nothing.

    Examples
    --------
    >>> did_you_mean("mothr_age", ["mother_age", "parity"])
    " Did you mean 'mother_age'?"
    >>> did_you_mean("colour", ["age"])
    ''
    """
    from difflib import get_close_matches

    candidates = list(known)
    for candidate in candidates:
        if candidate.casefold() == word.casefold():
            return f" Did you mean {candidate!r}?"
    longer = [candidate for candidate in candidates if len(word) > 2 and candidate.startswith(word)]
    if len(longer) == 1:
        return f" Did you mean {longer[0]!r}?"
    close = get_close_matches(word, candidates, n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def listing(names: Sequence[str], *, most: int = 8) -> str:
    """Return the names quoted and separated by commas, cut short when there are many.

    Examples
    --------
    >>> listing(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def raise_problems(heading: str, items: Sequence[str], error: type[UnderstudyError] = SchemaError) -> None:
    """Raise one error that lists every item and carries them in its ``problems`` attribute."""
    if not items:
        return
    problems = Problems(heading)
    problems.extend(items)
    try:
        problems.raise_if_any(error)
    except UnderstudyError as raised:
        vars(raised)["problems"] = tuple(items)
        raise


def problems_of(error: UnderstudyError) -> tuple[str, ...]:
    """Return the single problems of an error raised by `raise_problems`, or its whole message."""
    found = vars(error).get("problems")
    return tuple(found) if found else (str(error),)
