"""``understudy methods``: what can be asked for."""

from __future__ import annotations

from understudy.cli.options import Json


def show_methods(json: Json = False) -> None:
    """List every method, what it promises and which tables it takes."""
    from understudy.cli.output import print_json, print_table, tell
    from understudy.errors import MissingExtra, UnknownMethod
    from understudy.mechanisms import methods

    rows = []
    for item in methods():
        try:
            cls = item.load()
            notions, summary = [kind.__name__ for kind in cls.budgets], cls.summary
        except (MissingExtra, UnknownMethod) as error:
            notions, summary = [], str(error)
        rows.append({"method": item.name, "budgets": notions, "data": item.data, "summary": summary})
    if json:
        print_json(rows)
        return
    print_table(
        "Methods",
        ("method", "budgets", "data", "what it does"),
        [(row["method"], _budgets(row["budgets"]), row["data"], row["summary"]) for row in rows],
    )
    tell("Budgets: all are --epsilon, --epsilon with --delta, --rho and --mu.")
    tell(
        "In doubt begin with aim, mst or privsyn: they take any table. The manual says more (Choose a method)."
    )


def _budgets(names: object) -> str:
    """Return the kinds of budget in the words of the command line."""
    options = {"PureDP": "epsilon", "ApproxDP": "epsilon+delta", "ZCDP": "rho", "GDP": "mu"}
    given = [options[name] for name in names if name in options]  # type: ignore[attr-defined]
    return "all" if len(given) == len(options) else ", ".join(given)
