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
    │   ├── NoSuchGuarantee                 a mechanism that cannot give the guarantee asked for
    │   └── NothingDiscovered               a discovery that could tell no column from noise
    ├── LedgerError (RuntimeError)          a ledger that cannot be opened or written
    │   ├── LedgerCorrupted                 a ledger whose hash chain does not hold
    │   └── LedgerMismatch                  a ledger that belongs to another table, unit or budget
    ├── LookFailed (RuntimeError)           a look at the records that failed after it was charged
    ├── SealedError (TypeError)             a sealed value that was to be read, compared or changed
    ├── WorkloadError (ValueError)          cliques or workloads that do not fit the schema
    ├── WrongPairing (ValueError)           a combining rule that is not valid for how the sets were made
    ├── DomainTooLarge (ValueError)         a model that would not fit in memory
    ├── ModelFileError (ValueError)         a model file that cannot be read or written
    ├── BundleError (ValueError)            a published bundle that does not hold what it says
    ├── SignatureError (ValueError)         a key, signature or statement that cannot be used
    │   └── ApprovalMissing                 a specification that lacks an approval it requires
    ├── UnknownMethod (LookupError)         no synthesizer of that name
    ├── UnusableMethod (RuntimeError)       a synthesizer or criterion that does not work here
    ├── MissingExtra (ImportError)          an optional dependency that is not installed
    ├── UnsupportedSystem (RuntimeError)    an operating system that lacks what is needed
    └── OutputError (OSError)               a file that cannot be written

Messages say what was wanted, where, and what to do next. They never contain a private value, a
private count, or anything computed from the records without noise.

Each class has a ``code`` that never changes and is never given to another class, and ``advice``: what to do first. Both are listed in
``docs/reference/errors.md``, which is generated from here; programs compare codes, people read messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote_plus

__all__ = [
    "ApprovalMissing",
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
    "NothingDiscovered",
    "OutputError",
    "Problems",
    "SchemaError",
    "SealedError",
    "SignatureError",
    "UnderstudyError",
    "UnknownMethod",
    "UnsupportedSystem",
    "UnusableMethod",
    "UsageError",
    "WorkloadError",
    "WrongPairing",
    "without_password",
]

_PASSWORD = re.compile(
    r"(?:pass(?:w|phrase|file)|pwd|scram_|secret|token|pin-value)[\w.-]{0,200}['\"]?\s{0,20}=(?!=)"
    r"|(?<![\w.+%-])[\w.+%-]{2,}+:[^\s@/]{1,4000}+@"
    r"|://[^\s/@]{0,400}:[^\n@]{0,4000}@",
    re.IGNORECASE,
)
"""Where a password may begin. All repetitions are bounded or possessive: messages quote what strangers wrote."""
_LAYERS = 8
"""A message that is percent-encoded more often than this is nobody's plain words."""
_WITHHELD = "(the rest is withheld: it may hold a password)"


def without_password(message: str) -> str:
    """Return a message that ends where an address with a password begins.

    Addresses with passwords are refused before anything is done with them (`understudy.schema.addresses.secret_in`). This is for those that somebody hands over as
    something else, such as the name of a file. Everything behind is cut: where a password ends, only the driver knows.

    Examples
    --------
    >>> without_password("There is no file 'host=db password=swordfish'. Check the path.")
    "There is no file 'host=db (the rest is withheld: it may hold a password)"
    >>> without_password("There is no file 'births.csv'. Check the path.")
    "There is no file 'births.csv'. Check the path."
    """
    found = _PASSWORD.search(message)
    if found is not None:
        return message[: found.start()] + _WITHHELD
    plain = message
    for _ in range(_LAYERS):
        decoded = unquote_plus(plain)
        if "%" not in plain or decoded == plain:
            return message
        plain = decoded
        if _PASSWORD.search(plain):
            return _WITHHELD
    return _WITHHELD


class UnderstudyError(Exception):
    """Base of every deliberate error; the command line prints its message without a traceback."""

    code: ClassVar[str] = "US-GENERAL-01"
    advice: ClassVar[str] = "Read the message; catch this class to catch every deliberate error."

    def __init__(self, *said: Any, **named: Any) -> None:
        super().__init__(
            *(without_password(part) if isinstance(part, str) else part for part in said), **named
        )


class SchemaError(UnderstudyError, ValueError):
    """A schema that cannot be used as written."""

    code: ClassVar[str] = "US-SCHEMA-01"
    advice: ClassVar[str] = (
        "Correct the columns that the message names; `understudy schema check SCHEMA` lists all problems at once."
    )


class ConstraintError(SchemaError):
    """A record constraint that does not parse or does not fit the columns it names."""

    code: ClassVar[str] = "US-SCHEMA-02"
    advice: ClassVar[str] = (
        "Correct the rule that the message quotes; the page on constraints gives the grammar."
    )


class DomainNotPublic(SchemaError):
    """A schema holds facts read from the data that its owner has not declared public."""

    code: ClassVar[str] = "US-SCHEMA-03"
    advice: ClassVar[str] = (
        "Decide for each fact that the message lists whether it is public, and declare it in the schema; replace those that are not."
    )


class DataError(UnderstudyError, ValueError):
    """A table that cannot be read or does not fit its schema."""

    code: ClassVar[str] = "US-DATA-01"
    advice: ClassVar[str] = (
        "Correct the file or the schema where the message says; values of records are never shown, look them up in the table itself."
    )


class UsageError(UnderstudyError, ValueError):
    """Options of the command line that contradict each other or lack something."""

    code: ClassVar[str] = "US-USAGE-01"
    advice: ClassVar[str] = (
        "Change the options that the message names; `understudy COMMAND --help` explains each."
    )


class BudgetError(UnderstudyError, ValueError):
    """A budget, privacy unit or noise scale that makes no sense."""

    code: ClassVar[str] = "US-BUDGET-01"
    advice: ClassVar[str] = "Correct the budget, unit or noise scale that the message names."


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

    code: ClassVar[str] = "US-BUDGET-02"
    advice: ClassVar[str] = (
        "Ask for less, or let the owner of the table raise the total of its ledger; nothing was spent."
    )

    def __init__(self, message: str, *, requested: float, remaining: float, accounting: str) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining
        self.accounting = accounting


class NoSuchGuarantee(BudgetError):
    """A mechanism cannot give the kind of guarantee that was asked for."""

    code: ClassVar[str] = "US-BUDGET-03"
    advice: ClassVar[str] = (
        "Choose another kind of budget or another method; `understudy methods` says which go together."
    )


class NothingDiscovered(BudgetError):
    """Every column was left out.

    Attributes
    ----------
    left_out
        Why, by column.
    """

    code: ClassVar[str] = "US-BUDGET-04"
    advice: ClassVar[str] = (
        "Ask for a larger share or a larger budget, or declare the columns that are public knowledge."
    )

    def __init__(self, left_out: Mapping[str, str], message: str) -> None:
        super().__init__(message)
        self.left_out = dict(left_out)


class LedgerError(UnderstudyError, RuntimeError):
    """A ledger that cannot be opened, read or written."""

    code: ClassVar[str] = "US-LEDGER-01"
    advice: ClassVar[str] = (
        "Give the ledger a folder that exists and can be written, or wait for the process that uses it."
    )


class LedgerCorrupted(LedgerError):
    """A ledger whose hash chain does not hold: it was damaged or edited."""

    code: ClassVar[str] = "US-LEDGER-02"
    advice: ClassVar[str] = (
        "Stop spending on this table. Restore the ledger from a copy whose head you trust; `understudy ledger verify` compares."
    )


class LedgerMismatch(LedgerError):
    """A ledger that belongs to another table, privacy unit or total budget."""

    code: ClassVar[str] = "US-LEDGER-03"
    advice: ClassVar[str] = (
        "Use the ledger of this table, or the unit, total and facts that this ledger was opened with."
    )


class LookFailed(UnderstudyError, RuntimeError):
    """A look at the records ended in an error after it was charged: an outcome that says no more than this name."""

    code: ClassVar[str] = "US-LOOK-01"
    advice: ClassVar[str] = (
        "The charge stands. Rehearse the same command on a simulated table to find the cause without looking at the records again."
    )


class SealedError(UnderstudyError, TypeError):
    """A sealed value was to be read, compared or changed; its message is the same whatever the value is."""

    code: ClassVar[str] = "US-LOOK-02"
    advice: ClassVar[str] = (
        "Ask the curator to measure, test or choose; nothing else is told of exact values. A mechanism of another package is repaired by its author."
    )


class WorkloadError(UnderstudyError, ValueError):
    """Cliques or workloads that do not fit the schema."""

    code: ClassVar[str] = "US-WORKLOAD-01"
    advice: ClassVar[str] = "Name columns that the schema has, each once, and weights that are positive."


class WrongPairing(UnderstudyError, ValueError):
    """A combining rule that is not valid for the way in which the synthetic sets were made."""

    code: ClassVar[str] = "US-INFERENCE-01"
    advice: ClassVar[str] = (
        "Choose the combining rule that belongs to the way in which the sets were made; the message names it."
    )


class DomainTooLarge(UnderstudyError, ValueError):
    """A model that would not fit in the memory allowed for it.

    Attributes
    ----------
    cells
        How many cells the model would need.
    allowed
        How many are allowed.
    """

    code: ClassVar[str] = "US-SIZE-01"
    advice: ClassVar[str] = "Use coarser bins, a smaller workload or more memory; nothing was spent."

    def __init__(self, message: str, *, cells: int, allowed: int) -> None:
        super().__init__(message)
        self.cells = cells
        self.allowed = allowed


class ModelFileError(UnderstudyError, ValueError):
    """A model file that cannot be read or written."""

    code: ClassVar[str] = "US-MODEL-01"
    advice: ClassVar[str] = (
        "Get the file again from where it was made, or update Understudy if it is of a newer version."
    )


class BundleError(UnderstudyError, ValueError):
    """A published bundle that was changed or does not hold what it says."""

    code: ClassVar[str] = "US-BUNDLE-01"
    advice: ClassVar[str] = "Do not use the bundle as it is; get it again from its publisher."


class SignatureError(UnderstudyError, ValueError):
    """A key, signature or statement that cannot be used, or does not hold."""

    code: ClassVar[str] = "US-SIGNATURE-01"
    advice: ClassVar[str] = (
        "Get the key or the statement again from whoever made it; do not rely on a signature that does not hold."
    )


class ApprovalMissing(SignatureError):
    """A specification requires approvals that are not there, are of another version, or are not signed as required."""

    code: ClassVar[str] = "US-SIGNATURE-02"
    advice: ClassVar[str] = (
        "Have the specification approved as it stands (`understudy sign SPEC --as ROLE --name NAME`); nothing was spent."
    )


class UnknownMethod(UnderstudyError, LookupError):
    """No synthesizer of that name is registered."""

    code: ClassVar[str] = "US-METHOD-01"
    advice: ClassVar[str] = (
        "Choose a name that `understudy methods` lists, or install the package that brings the method."
    )


class UnusableMethod(UnderstudyError, RuntimeError):
    """A synthesizer, or a criterion of another package, does not work with this installation on this machine; found out before anything was charged."""

    code: ClassVar[str] = "US-METHOD-02"
    advice: ClassVar[str] = (
        "Install or repair what the message names, or choose another method; nothing was spent."
    )


class MissingExtra(UnderstudyError, ImportError):
    """An optional dependency that is needed for this feature is not installed."""

    code: ClassVar[str] = "US-INSTALL-01"
    advice: ClassVar[str] = "Run the `pip install` command of the message."


class UnsupportedSystem(UnderstudyError, RuntimeError):
    """An operating system that lacks what is needed, such as file locks that end with their process."""

    code: ClassVar[str] = "US-INSTALL-02"
    advice: ClassVar[str] = "Run Understudy on Linux or macOS; on Windows in WSL 2 or in a Linux container."


class OutputError(UnderstudyError, OSError):
    """A file that cannot be written; existing files are left as they were."""

    code: ClassVar[str] = "US-OUTPUT-01"
    advice: ClassVar[str] = (
        "Choose a place that can be written and has room, then run the same command again."
    )


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


def place_of(error: BaseException, package: str = "") -> str:
    """Return where an error arose, as ``module:line``: in its deepest frame, or in the deepest one of a package.

    It is empty where the error never passed through that package.

    Examples
    --------
    >>> try:
    ...     int("x")
    ... except ValueError as error:
    ...     place_of(error).rpartition(":")[2], place_of(error, "numpy")
    ('2', '')
    """
    found, step = "", error.__traceback__
    while step is not None:
        module = str(step.tb_frame.f_globals.get("__name__"))
        if not package or module.partition(".")[0] == package:
            found = f"{module}:{step.tb_lineno}"
        step = step.tb_next
    return found


def described_fault(error: BaseException, package: str = "") -> str:
    """Return class, text and place of an error, for errors about public or made-up facts alone.

    The place is the deepest one inside a package where the error passed through it, and otherwise the deepest one. A name that is not there is
    followed by a similar one that is.

    Examples
    --------
    >>> try:
    ...     "a".uper()
    ... except AttributeError as error:
    ...     described_fault(error).partition(" at ")[0]
    "AttributeError ('str' object has no attribute 'uper'; did you mean 'upper'?)"
    """
    text = str(error).rstrip(".")
    close = _similar_name(error)
    if close:
        text += f"; did you mean {close!r}?"
    place = place_of(error, package) or place_of(error)
    return f"{type(error).__name__} ({text})" + (f" at {place}" if place else "")


def _similar_name(error: BaseException) -> str:
    """Return a name that is there and looks like the one that an error says is not, as Python does for errors that nobody catches."""
    from difflib import get_close_matches

    known: Iterable[str] = ()
    if isinstance(error, AttributeError) and error.obj is not None:
        known = [name for name in dir(error.obj) if not name.startswith("_")]
    elif isinstance(error, NameError):
        step = error.__traceback__
        while step is not None:
            known, step = {*step.tb_frame.f_locals, *step.tb_frame.f_globals}, step.tb_next
    missing = getattr(error, "name", None)
    close = get_close_matches(missing, known, n=1) if isinstance(missing, str) else []
    return close[0] if close else ""
