"""Each error has a code that never changes, advice, and its line in the documentation."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

from understudy import errors
from understudy.cli.main import _with_code, exit_code
from understudy.data.private_files import FolderInUse
from understudy.errors import BudgetExceeded, SchemaError, UnderstudyError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"
CODES = {
    "US-BUDGET-01": "BudgetError",
    "US-BUDGET-02": "BudgetExceeded",
    "US-BUDGET-03": "NoSuchGuarantee",
    "US-BUDGET-04": "NothingDiscovered",
    "US-BUNDLE-01": "BundleError",
    "US-DATA-01": "DataError",
    "US-GENERAL-01": "UnderstudyError",
    "US-INFERENCE-01": "WrongPairing",
    "US-INSTALL-01": "MissingExtra",
    "US-INSTALL-02": "UnsupportedSystem",
    "US-LEDGER-01": "LedgerError",
    "US-LEDGER-02": "LedgerCorrupted",
    "US-LEDGER-03": "LedgerMismatch",
    "US-LEDGER-04": "FolderInUse",
    "US-LOOK-01": "LookFailed",
    "US-LOOK-02": "SealedError",
    "US-METHOD-01": "UnknownMethod",
    "US-METHOD-02": "UnusableMethod",
    "US-MODEL-01": "ModelFileError",
    "US-OUTPUT-01": "OutputError",
    "US-SCHEMA-01": "SchemaError",
    "US-SCHEMA-02": "ConstraintError",
    "US-SCHEMA-03": "DomainNotPublic",
    "US-SIGNATURE-01": "SignatureError",
    "US-SIGNATURE-02": "ApprovalMissing",
    "US-SIZE-01": "DomainTooLarge",
    "US-USAGE-01": "UsageError",
    "US-WORKLOAD-01": "WorkloadError",
}
"""What a code means is fixed by the first version that has it. Lines are added here and never changed."""

CLASSES: list[type[UnderstudyError]] = [
    *(
        thing
        for thing in vars(errors).values()
        if inspect.isclass(thing) and issubclass(thing, UnderstudyError)
    ),
    FolderInUse,
]


def test_codes_never_change() -> None:
    found = {cls.code: cls.__name__ for cls in CLASSES}
    assert len(found) == len(CLASSES), "two classes share a code"
    assert found == CODES


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_class_has_its_own_code_and_advice_and_a_line_in_the_documentation(
    cls: type[UnderstudyError],
) -> None:
    assert {"code", "advice"} <= set(vars(cls)), "inherited: nobody could tell it from its parent"
    assert re.fullmatch(r"US-[A-Z]+-\d\d", cls.code)
    assert len(cls.advice) > 20
    (line,) = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| `{cls.code}` |")]
    _, _, name, status, meaning, advice, _ = (cell.strip() for cell in line.split("|"))
    assert name == f"`{cls.__name__}`"
    assert int(status) == exit_code(cls.__new__(cls))
    assert meaning == " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    assert advice == cls.advice


def test_no_class_of_the_package_is_forgotten() -> None:
    """Every class in the source that derives from one of these, wherever it stands."""
    known = {cls.__name__ for cls in CLASSES}
    source = ROOT / "src" / "understudy"
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.ClassDef)
                and {base.id for base in node.bases if isinstance(base, ast.Name)} & known
            ):
                assert node.name in known, (
                    f"{path.relative_to(source)}: {node.name} needs a code and a line in CODES"
                )


def test_the_command_line_shows_the_code_behind_the_message() -> None:
    error = BudgetExceeded("Too much.", requested=1.0, remaining=0.5, accounting="pure")
    assert _with_code(error) == "Too much. [US-BUDGET-02]"
    assert _with_code(SchemaError("Problems:\n  - one")) == "Problems:\n  - one\n[US-SCHEMA-01]"


def test_an_error_of_another_package_has_the_code_of_what_it_is() -> None:
    class OwnError(SchemaError):
        """Defined elsewhere."""

    assert OwnError("no").code == "US-SCHEMA-01"


def test_the_tree_in_the_docstring_shows_every_class() -> None:
    tree = importlib.import_module("understudy.errors").__doc__ or ""
    for cls in CLASSES:
        assert cls is FolderInUse or re.search(rf"\b{cls.__name__}\b", tree), cls
