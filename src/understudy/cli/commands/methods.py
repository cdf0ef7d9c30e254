"""``understudy methods``: what can be asked for."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import Json

if TYPE_CHECKING:
    from understudy.mechanisms import Method

NAME = Annotated[str | None, typer.Argument(help="One method, in detail.")]


def show_methods(name: NAME = None, json: Json = False) -> None:
    """List every method, its papers and the law of its noise. With a name, describe that one."""
    from understudy.cli.output import print_json, print_table, tell
    from understudy.mechanisms import method, methods

    if name is not None:
        row = _facts(method(name))
        if json:
            print_json(row)
            return
        facts = row | {"budgets": _budgets(row["budgets"]), "papers": _papers(row), "page": _page(row)}
        options = facts.pop("options")
        print_table(name, ("fact", "value"), [(key, text) for key, text in facts.items() if text])
        if options:
            print_table(
                "Options (-o name=value)",
                ("option", "default", "what it is"),
                [(option["name"], _default(option), option["text"]) for option in options],
            )
        return
    rows = [_facts(item) for item in methods()]
    if json:
        print_json(rows)
        return
    print_table(
        "Methods",
        ("method", "what it does", "paper, section", "law of its noise"),
        [(row["method"], row["summary"], _papers(row), _law(row)) for row in rows],
    )
    tell(
        "Every kind of budget (--epsilon, --epsilon with --delta, --rho, --mu) unless something else is said."
    )
    tell(
        "Laplace or Gaussian: --epsilon alone gets Laplace noise, --rho and --mu Gaussian noise, and --epsilon with --delta the one that is smaller."
    )
    tell("One of them, with its budgets and its kind of tables: understudy methods NAME.")
    tell(
        "In doubt name none: synth then chooses one by the schema, the unit and the budget (--method auto), and says why. The manual says more "
        "(Choose a method; The five papers)."
    )


def _facts(item: Method) -> dict[str, Any]:
    """Return what is known of a method without fitting it; a missing dependency takes the place of its summary."""
    from understudy.errors import MissingExtra, UnknownMethod

    known: dict[str, Any] = {"method": item.name, "budgets": [], "data": item.data, "package": item.package}
    known["options"] = []
    nowhere = "" if item.package is None else f"see the package {item.package}"
    try:
        cls = item.load()
    except (MissingExtra, UnknownMethod) as error:
        return known | {"summary": str(error), "law": nowhere, "papers": {}, "origin": nowhere}
    known |= {"budgets": [kind.__name__ for kind in cls.budgets], "summary": cls.summary}
    known["options"] = [asdict(option) for option in item.options()]
    if cls.source is None:
        return known | {"law": nowhere, "papers": {}, "origin": nowhere}
    return known | cls.source.to_plain()


def _papers(row: dict[str, Any]) -> str:
    """Return the papers with their sections; where there are none, the work that proposed the method."""
    return "; ".join(f"{title}, {place}" for title, place in row["papers"].items()) or str(row["origin"])


def _law(row: dict[str, Any]) -> str:
    """Return the law of the noise and, where not every kind of budget is taken, which are."""
    given = _budgets(row["budgets"])
    return row["law"] if given.startswith(("all", "none")) else f"{row['law']} ({given} only)"


def _default(option: dict[str, Any]) -> str:
    """Return a default as it would be typed; one that has to be given has none."""
    if option["required"]:
        return "(required)"
    value = option["default"]
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _page(row: dict[str, Any]) -> str:
    return "" if row["package"] else f"docs/methods/{row['method']}.md"


def _budgets(names: list[str]) -> str:
    """Return the kinds of budget in the words of the command line."""
    options = {"PureDP": "epsilon", "ApproxDP": "epsilon+delta", "ZCDP": "rho", "GDP": "mu"}
    given = [options[name] for name in names if name in options]
    if len(given) == len(options):
        return "all: --epsilon, --epsilon with --delta, --rho and --mu"
    return ", ".join(given) or "none that can be told"
