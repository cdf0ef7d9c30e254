"""Every error Understudy raises on purpose.

::

    UnderstudyError
    ├── SchemaError (ValueError)            a schema that cannot be used as written
    │   ├── ConstraintError                 a record constraint that does not parse or type-check
    │   └── DomainNotPublic                 facts read from the data and not yet declared public
    ├── DataError (ValueError)              a table that does not fit its schema, or cannot be read
    ├── UsageError (ValueError)             options of the command line that do not go together
    ├── BudgetError (ValueError)            a budget, unit or noise scale that makes no sense
    │   ├── BudgetExceeded                  a charge larger than what remains
    │   └── NoSuchGuarantee                 a mechanism that cannot give the guarantee asked for
    ├── LedgerError (RuntimeError)          a ledger that cannot be opened or written
    │   ├── LedgerCorrupted                 a ledger whose hash chain does not hold
    │   └── LedgerMismatch                  a ledger that belongs to another table, unit or budget
    ├── LookFailed (RuntimeError)           a look at the records that failed after it was charged
    ├── WorkloadError (ValueError)          cliques or workloads that do not fit the schema
    ├── WrongPairing (ValueError)           a combining rule that is not valid for how the sets were made
    ├── DomainTooLarge (ValueError)         a model that would not fit in memory
    ├── ModelFileError (ValueError)         a model file that cannot be read or written
    ├── BundleError (ValueError)            a published bundle that does not hold what it says
    ├── UnknownMethod (LookupError)         no synthesizer of that name
    ├── UnusableMethod (RuntimeError)       a synthesizer that does not work on this machine
    ├── MissingExtra (ImportError)          an optional dependency that is not installed
    └── OutputError (OSError)               a file that cannot be written

Messages say what was wanted, where, and what to do next. They never contain a private value, a
private count, or anything computed from the records without noise.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "BudgetError",
    "BudgetExceeded",
    "BundleError",
    "ConstraintError",
    "DataError",
    "DomainNotPublic",
    "DomainTooLarge",
    "LedgerCorrupted",
    "LedgerError",
    "LedgerMismatch",
    "LookFailed",
    "MissingExtra",
    "ModelFileError",
    "NoSuchGuarantee",
    "OutputError",
    "Problems",
    "SchemaError",
    "UnderstudyError",
    "UnknownMethod",
    "UnusableMethod",
    "UsageError",
    "WorkloadError",
    "WrongPairing",
]


class UnderstudyError(Exception):
    """Base of every deliberate error; the command line prints its message without a traceback."""


class SchemaError(UnderstudyError, ValueError):
    """A schema that cannot be used as written."""


class ConstraintError(SchemaError):
    """A record constraint that does not parse or does not fit the columns it names."""


class DomainNotPublic(SchemaError):
    """A schema holds facts read from the data that its owner has not declared public."""


class DataError(UnderstudyError, ValueError):
    """A table that cannot be read or does not fit its schema."""


class UsageError(UnderstudyError, ValueError):
    """Options of the command line that contradict each other or lack something."""


class BudgetError(UnderstudyError, ValueError):
    """A budget, privacy unit or noise scale that makes no sense."""


class BudgetExceeded(BudgetError):
    """A charge was refused because it is larger than what remains; nothing was spent.

    Attributes
    ----------
    requested
        The cost of the refused act, in the additive unit of ``accounting``.
    remaining
        What was left before it, in the same unit.
    accounting
        Name of the accounting those two numbers are in (``"pure"``, ``"zcdp"`` or ``"gdp"``).
    """

    def __init__(self, message: str, *, requested: float, remaining: float, accounting: str) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining
        self.accounting = accounting


class NoSuchGuarantee(BudgetError):
    """A mechanism cannot give the kind of guarantee that was asked for."""


class LedgerError(UnderstudyError, RuntimeError):
    """A ledger that cannot be opened, read or written."""


class LedgerCorrupted(LedgerError):
    """A ledger whose hash chain does not hold: it was damaged or edited."""


class LedgerMismatch(LedgerError):
    """A ledger that belongs to another table, privacy unit or total budget."""


class LookFailed(UnderstudyError, RuntimeError):
    """A look at the records ended in an error after it was charged: an outcome that says no more than this name."""


class WorkloadError(UnderstudyError, ValueError):
    """Cliques or workloads that do not fit the schema."""


class WrongPairing(UnderstudyError, ValueError):
    """A combining rule that is not valid for the way in which the synthetic sets were made."""


class DomainTooLarge(UnderstudyError, ValueError):
    """A model that would not fit in the memory allowed for it.

    Attributes
    ----------
    cells
        How many cells the model would need.
    allowed
        How many are allowed.
    """

    def __init__(self, message: str, *, cells: int, allowed: int) -> None:
        super().__init__(message)
        self.cells = cells
        self.allowed = allowed


class ModelFileError(UnderstudyError, ValueError):
    """A model file that cannot be read or written."""


class BundleError(UnderstudyError, ValueError):
    """A published bundle that was changed or does not hold what it says."""


class UnknownMethod(UnderstudyError, LookupError):
    """No synthesizer of that name is registered."""


class UnusableMethod(UnderstudyError, RuntimeError):
    """A synthesizer does not work with this installation on this machine; found out before anything was charged."""


class MissingExtra(UnderstudyError, ImportError):
    """An optional dependency that is needed for this feature is not installed."""


class OutputError(UnderstudyError, OSError):
    """A file that cannot be written; existing files are left as they were."""


class Problems:
    """Collect everything wrong with an input, then raise once.

    Examples
    --------
    >>> problems = Problems("The schema has problems")
    >>> problems.add("column 'age': no bins")
    >>> problems.raise_if_any(SchemaError)
    Traceback (most recent call last):
    ...
    understudy.errors.SchemaError: The schema has problems:
      - column 'age': no bins
    """

    def __init__(self, heading: str) -> None:
        self.heading = heading
        self.items: list[str] = []

    def add(self, problem: str) -> None:
        """Note one problem."""
        self.items.append(problem)

    def extend(self, problems: Iterable[str]) -> None:
        """Note several problems."""
        self.items.extend(problems)

    def __bool__(self) -> bool:
        return bool(self.items)

    def raise_if_any(self, error: type[UnderstudyError]) -> None:
        """Raise ``error`` with all collected problems, or return if there are none."""
        if self.items:
            raise error(self.heading + ":\n" + "\n".join(f"  - {item}" for item in self.items))
