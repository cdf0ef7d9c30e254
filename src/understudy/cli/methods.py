"""``understudy methods``: what can be asked for."""

from __future__ import annotations

from understudy.cli._options import Json


def show_methods(json: Json = False) -> None:
    """List every mechanism: the guarantees it can give, the data it takes, one line each."""
    from understudy.cli._output import print_json, print_table
    from understudy.errors import MissingExtra, UnknownMethod
    from understudy.synthesizers import methods

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
        [(row["method"], ", ".join(row["budgets"]), row["data"], row["summary"]) for row in rows],
    )
