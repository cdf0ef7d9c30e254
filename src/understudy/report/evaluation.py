"""The pages of an evaluation: exact numbers under a warning that never leaves the screen, or numbers that were measured with noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from understudy.report.page import Block, Bullets, Folded, Html, Page, Table, Text, render

__all__ = ["accounted_page", "evaluation_page"]

TOP, FOLDED = 10, 50
"""Pairs and triples that are shown, and those in a folded table; all of them are in the numbers as a file."""

_LEAST_SCALE = 0.02
"""Bars are drawn to a full length of at least this share of rows, so that small differences look small."""

_TITLES = {
    "marginals": "Counts and their errors",
    "dependence": "Relations of two columns",
    "groups": "Groups and rare combinations",
    "regression": "Regression",
    "classifiers": "Classifiers",
    "telling apart": "Telling synthetic from real rows",
    "face": "Rows: repeated, rare, against a rule",
    "disclosure": "What declared attackers gain",
}
_SHOWN_ELSEWHERE = ("learning", "other tools")


def evaluation_page(found: Mapping[str, Any], *, title: str) -> str:
    """Return the page of an evaluation, given as plain values (``Evaluation.to_dict()``).

    It is red where the report of a release is blue, and carries the warning on every printed page. The worst things come first, and details are
    folded.

    Examples
    --------
    >>> text = evaluation_page({"warning": "Private.", "rows": {"real": 2, "synthetic": 2}, "sections": [],
    ...                         "left_out": []}, title="births")
    >>> "Private." in text
    True
    """
    sections: list[tuple[str, list[Block]]] = [("At a glance", _glance(found))]
    if found.get("columns"):
        sections.append(("Columns, the worst first", _columns(found["columns"])))
    if found.get("pairs"):
        sections.append(("Pairs and triples of columns", _sets(found)))
    if found.get("learning"):
        sections.append((f"Learning: {found['learning']['question']}", _learning(found["learning"])))
    details: list[Block] = [
        _section(item) for item in found["sections"] if item["title"] not in _SHOWN_ELSEWHERE
    ]
    if details:
        sections.append(("All measures", details))
    if found.get("other_tools"):
        sections.append(("What other tools would say", _others(found["other_tools"])))
    if found.get("hidden"):
        sections.append(("What the schema hides", [Bullets(found["hidden"])]))
    if found["left_out"]:
        sections.append(("Not computed", [Bullets(found["left_out"])]))
    sections.append(("How to read this", _reading()))
    rows = found["rows"]
    return render(
        Page(
            title=f"{title}: evaluation against the real records",
            subtitle=f"{rows['real']:,} real and {rows['synthetic']:,} synthetic rows",
            sections=sections,
            banner=found["warning"],
            accent="#8f2323",
            accent_dark="#f0a3a3",
        )
    )


def _reading() -> list[Block]:
    return [
        Text(
            "The distance of a column, of a pair or of three columns is their total variation: the share of rows that would have to change for "
            "both tables to have the same counts. Two samples of one population have such a distance, too, and the larger the more values there are; a distance "
            "is good if it is not much larger than that. The scores are of different kinds and are not averaged. Of long lists the worst are shown; all numbers are in the "
            "file that --out writes."
        ),
        Text(
            "A failed attack proves nothing about privacy, and neither does the distance of synthetic records to their closest real record: both depend on "
            "the attacker one thought of. The guarantee of a release is its ledger and its certificate."
        ),
    ]


# ----------------------------------------------------------------------------------------
# The first screen.


def _glance(found: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    if compared := found.get("compared"):
        blocks.append(Text(_compared(compared)))
    if worst := found.get("worst"):
        kinds = {"columns": "column", "pairs": "pair", "triples": "three columns"}
        items = "".join(
            f"<li><b>{escape(item['what'])}</b> <i>{escape(kinds.get(item['kind'], item['kind']))}</i> "
            f"{escape(item['sentence'])}</li>"
            for item in worst
        )
        blocks.append(Html(f'<h3>The worst of each kind</h3><ol class="worst">{items}</ol>'))
    if scores := found.get("scores"):
        cards = "".join(map(_card, scores))
        blocks.append(Html(f'<h3>Scores</h3><ul class="cards">{cards}</ul>'))
    return blocks


def _compared(compared: Mapping[str, Any]) -> str:
    held = compared["held_out_rows"]
    words = f"Compared: {compared['synthetic_rows']:,} synthetic rows with {compared['real_rows']:,} real ones, in {_many(compared['columns'], 'column')}."
    if held is not None:
        words += f" {held:,} further real rows had no part in the synthesis."
    if compared["target"]:
        words += f" Target: {compared['target']}"
        words += f", without {', '.join(compared['excluded'])}." if compared["excluded"] else "."
    return words


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _number(value: float, unit: str) -> str:
    """Return a score in its unit, with as many digits as mean something."""
    return f"{value:.1%}" if unit == "share of rows" else f"{value:.3f}"


def _card(score: Mapping[str, Any]) -> str:
    unit = score["unit"]
    words = [f"<span>{escape(score['name'])}</span>"]
    if unit != "share of rows":
        words.append(f"<span>Unit: {escape(unit)}.</span>")
    if "reference" in score:
        against = score["against"]
        words.append(f"<span>{escape(against.capitalize())}: {_number(score['reference'], unit)}.</span>")
    if "worst" in score:
        worst = score["worst"]
        words.append(f"<span>Worst: {escape(worst['name'])}, {_number(worst['value'], unit)}.</span>")
    words.append(f"<span>Good: {escape(score['good'])}.</span>")
    return (
        f"<li><i>{escape(score['section'].capitalize())}</i><b>{_number(score['value'], unit)}"
        f"{' of rows' if unit == 'share of rows' else ''}</b>{' '.join(words)}</li>"
    )


# ----------------------------------------------------------------------------------------
# Columns, pairs and triples as lines with a bar.


def _columns(columns: Sequence[Mapping[str, Any]]) -> list[Block]:
    scale = _scale(columns)
    shown, rest = columns[:40], columns[40:]
    blocks: list[Block] = [
        Text(
            f"Bars show the share of rows that would have to change, {scale:.1%} at full length; the mark is what two samples of one population would show, and a bar of more than "
            "twice that is orange. "
            "Open a column to see its values."
        ),
        Html(f'<div class="lines">{"".join(_column(item, scale) for item in shown)}</div>'),
    ]
    if rest:
        lines = f'<div class="lines">{"".join(_column(item, scale) for item in rest)}</div>'
        blocks.append(Folded(f"{len(rest):,} further columns", [Html(lines)]))
    return blocks


def _scale(items: Sequence[Mapping[str, Any]]) -> float:
    return max([_LEAST_SCALE, *(float(item[name]) for item in items for name in ("value", "sampling"))])


def _line(name: str, item: Mapping[str, Any], scale: float) -> str:
    """Return name, bar and value; the bar says nothing that the value does not."""
    value, mark = 100 * item["value"] / scale, 100 * item["sampling"] / scale
    over = item["value"] > 2 * item["sampling"]
    return (
        f'<span class="what">{escape(name)}</span>'
        f'<svg viewBox="0 0 100 12" preserveAspectRatio="none" width="100" height="12" aria-hidden="true" class="bar">'
        f'<rect width="100" height="12" fill="currentColor" fill-opacity=".08"/>'
        f'<rect width="{value:.2f}" y="2" height="8" fill="{"#c4622d" if over else "#0b6e99"}"/>'
        f'<rect x="{min(99.0, mark):.2f}" width="1" height="12" fill="currentColor"/></svg>'
        f'<span class="n">{item["value"]:.1%}</span>'
    )


def _column(item: Mapping[str, Any], scale: float) -> str:
    facts = [f"Kind: {item['kind']}. Two samples of one population: {item['sampling']:.1%}."]
    if "mean" in item:
        facts.append(f"Mean: {item['mean']['real']:.4g} real, {item['mean']['synthetic']:.4g} synthetic.")
    if "missing" in item:
        facts.append(
            f"Missing: {item['missing']['real']:.1%} real, {item['missing']['synthetic']:.1%} synthetic."
        )
    name = item["column"]
    return f"<details><summary>{_line(name, item, scale)}</summary><p>{escape(' '.join(facts))}</p>{_values(name, item)}</details>"


def _values(name: str, item: Mapping[str, Any]) -> str:
    """Return the values of a column with their shares in both tables, as a table with bars."""
    values = [(entry["value"], entry["real"], entry["synthetic"]) for entry in item["values"]]
    if further := item.get("further"):
        values.append((f"{further['values']:,} further values", further["real"], further["synthetic"]))
    tallest = max([1e-12, *(max(real, made) for _, real, made in values)])
    body = "".join(
        f"<tr><td>{escape(label)}</td><td class=n>{real:.1%}</td><td class=n>{made:.1%}</td>"
        f'<td class="wide-only"><svg viewBox="0 0 100 14" preserveAspectRatio="none" width="100" height="14" aria-hidden="true" class="bar">'
        f'<rect width="{100 * real / tallest:.2f}" height="6" fill="#8a8f98"/>'
        f'<rect y="7" width="{100 * made / tallest:.2f}" height="6" fill="#0b6e99"/></svg></td></tr>'
        for label, real, made in values
    )
    which = "that differ most" if further else "in both tables"
    return (
        f"<table><caption>Values of {escape(name)} {which}: real (grey) and synthetic (blue) share of rows</caption><thead><tr>"
        '<th scope="col">value</th><th scope="col" class=n>real</th><th scope="col" class=n>synthetic</th>'
        f'<th scope="col" class="wide-only">shares</th></tr></thead><tbody>{body}</tbody></table>'
    )


def _sets(found: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    pairs, triples = found["pairs"], found.get("triples") or []
    for word, items in (("pair", pairs), ("triple", triples)):
        if not items:
            continue
        scale = _scale(items[:TOP])
        lines = "".join(f"<li>{_line(' × '.join(item['columns']), item, scale)}</li>" for item in items[:TOP])
        heading = f"The {min(TOP, len(items))} worst {word}s" if len(items) > 1 else f"The {word}"
        listed = Html(f'<ul class="lines">{lines}</ul>')
        some = f"the worst {FOLDED} of {len(items):,} {word}s" if len(items) > FOLDED else f"all {word}s"
        every = Table(
            f"{some[0].upper()}{some[1:]}",
            ("columns", "share of rows", "two samples", "beyond that"),
            [
                [
                    " × ".join(item["columns"]),
                    f"{item['value']:.2%}",
                    f"{item['sampling']:.2%}",
                    f"{item['value'] - item['sampling']:+.2%}",
                ]
                for item in items[:FOLDED]
            ],
            numeric=(1, 2, 3),
            searchable=True,
            folded=True,
        )
        more: list[Block] = [every] if len(items) > TOP else []
        if word == "triple":
            drawn = (
                f" (of {found['triples_of']:,}, {len(items):,} were drawn at random)"
                if found["triples_of"] > len(items)
                else ""
            )
            blocks.append(Folded(f"{heading}{drawn}", [listed, *more]))
        else:
            blocks += [
                Html(f"<h3>{heading}</h3>"),
                Text(f"{scale:.1%} of the rows at full length."),
                listed,
                *more,
            ]
    return blocks


# ----------------------------------------------------------------------------------------
# Learning, other tools, all measures.


def _learning(item: Mapping[str, Any]) -> list[Block]:
    rows = item["rows"]
    about = (
        f"Trained on {rows['synthetic']:,} synthetic rows, and for comparison on {rows['real']:,} real ones; tested on {rows['test']:,} real rows. The area under the "
        "curve (AUC) is the chance that a row of the class scores above another one; 0.5 is guessing, 1 is never wrong. "
        + ("Each class is told from all others, and the areas are averaged." if item["classes"] > 2 else "")
    )
    blocks: list[Block] = [Text(about)]
    if not item["fair"]:
        blocks.append(
            Text(
                "Not a fair test: the synthesis has seen the test rows. Set rows aside before the fit (synth --hold-out 0.2) and divide the table in the same way here (--hold-out-file).",
                strong=True,
            )
        )
    blocks.append(_learners("Learners", item["learners"], item["majority"]["accuracy"]))
    if item["excluded"]:
        blocks.append(Text(f"Left out of the predictors: {', '.join(item['excluded'])}."))
    if item["leaks"]:
        names = [leak["column"] for leak in item["leaks"]]
        blocks.append(
            Text(
                f"{_listed(names)} (nearly) {'gives' if len(names) == 1 else 'give'} the target away. A score that rests on that says little about the rest of the table.",
                strong=True,
            )
        )
        blocks.append(
            Bullets(
                [
                    f"{leak['column']}: AUC {leak['alone']:.3f} alone; boosting on real rows reaches {leak['without']:.3f} without it. Leave it out with --exclude {leak['column']}."
                    for leak in item["leaks"]
                ]
            )
        )
        if item["without_leaks"]:
            blocks.append(
                _learners(f"Without {_listed(names)}", item["without_leaks"], item["majority"]["accuracy"])
            )
    return blocks


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _learners(caption: str, learners: Sequence[Mapping[str, Any]], majority: float) -> Table:
    body = [
        [
            one["learner"],
            f"{one['auc']['synthetic']:.3f}",
            f"{one['auc']['real']:.3f}",
            f"{one['auc']['real'] - one['auc']['synthetic']:+.3f}",
            f"{one['auc']['standard_error']:.3f}",
            f"{one['accuracy']['synthetic']:.1%}",
            f"{one['accuracy']['real']:.1%}",
        ]
        for one in learners
    ]
    body.append(
        ["always the commonest class", "0.500", "0.500", "", "", f"{majority:.1%}", f"{majority:.1%}"]
    )
    head = (
        "learner",
        "AUC, synthetic",
        "AUC, real",
        "loss",
        "standard error",
        "right, synthetic",
        "right, real",
    )
    return Table(caption, head, body, numeric=(1, 2, 3, 4, 5, 6))


def _others(item: Mapping[str, Any]) -> list[Block]:
    made, nist = item["sdmetrics"], item["sdnist"]
    trends = made["column_pair_trends"]
    body = [
        ["SDMetrics quality score", f"{made['quality']:.1%}", "average of the next two; 100 % is best"],
        [
            "SDMetrics column shapes",
            f"{made['column_shapes']:.1%}",
            "distribution functions of numbers, shares of categories",
        ],
        [
            "SDMetrics column pair trends",
            "" if trends is None else f"{trends:.1%}",
            "of pairs that are related in the real table",
        ],
        [
            "SDNist k-marginal score",
            f"{nist['k_marginal']:.0f}",
            "pairs of columns as binned in the schema; 1000 is best",
        ],
    ]
    blocks: list[Block] = [
        Text("Computed here from the published definitions, so that results can be compared with others'."),
        Table("Scores of other tools", ("score", "value", "what it is"), body, numeric=(1,)),
    ]
    if item["from_bins"]:
        blocks.append(Text(f"By the middles of their bins: {', '.join(item['from_bins'])}."))
    return blocks


def _section(section: Mapping[str, Any]) -> Folded:
    title = section["title"]
    blocks: list[Block] = [Text(section["about"])] if section.get("about") else []
    if section["results"]:
        blocks.append(_summary(section))
    blocks += [_details(result) for result in section["results"] if len(result["values"]) > 1]
    return Folded(_TITLES.get(title, title.capitalize()), blocks)


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0


def _summary(section: Mapping[str, Any]) -> Table:
    rows = []
    for result in section["results"]:
        values = result["values"]
        pick = max if result["better"] == "lower" else min
        name, worst = pick(values.items(), key=lambda item: item[1])
        rows.append([result["measure"], f"{_mean(values):.4g}", f"{worst:.4g}", name, result["better"]])
    return Table(
        f"Summary of {section['title']}",
        ("measure", "average", "worst", "where", "better is"),
        rows,
        numeric=(1, 2),
    )


def _details(result: Mapping[str, Any]) -> Table:
    ordered = sorted(result["values"].items(), key=lambda item: item[1], reverse=result["better"] == "lower")
    measure = result["measure"]
    more = f", the worst {FOLDED} of {len(ordered):,}" if len(ordered) > FOLDED else ""
    return Table(
        f"{measure[0].upper()}{measure[1:]}{more}",
        ("of", "value"),
        [[name, f"{value:.5g}"] for name, value in ordered[:FOLDED]],
        numeric=(1,),
        searchable=len(ordered) > 12,
        folded=True,
    )


# ----------------------------------------------------------------------------------------
# Under a budget.


def accounted_page(found: Mapping[str, Any], *, title: str) -> str:
    """Return the page of an evaluation under a budget: what was measured with which noise, and what it cost.

    Parameters
    ----------
    found
        ``guarantee`` in words, ``measures`` with value and deviation of the noise, and ``spent``, as the command prints them.

    Examples
    --------
    >>> text = accounted_page(
    ...     {"guarantee": "epsilon=1.", "measures": [{"measure": "rows", "value": 100.0, "deviation": 2.0}],
    ...      "spent": {"total": 2.0, "remaining": 1.0, "accounting": "pure"}}, title="births")
    >>> "measured with noise" in text
    True
    """
    spent = found["spent"]
    measured = [
        [
            item["measure"],
            f"{item['value']:.5g}",
            f"{item['deviation']:.2g}",
            f"{item['value'] - 2 * item['deviation']:.5g} to {item['value'] + 2 * item['deviation']:.5g}",
        ]
        for item in found["measures"]
    ]
    used = spent["total"] - spent["remaining"]
    sections: list[tuple[str, list[Block]]] = [
        (
            "At a glance",
            [
                Text(
                    "Every number here about the real table was measured with noise, through the ledger of the table. None of them is exact, and all of them may be "
                    "published under the guarantee. An exact number that is public is named in the guarantee."
                ),
                Text(f"Guarantee of these numbers: {found['guarantee']}", strong=True),
            ],
        ),
        (
            "What was measured with noise",
            [
                Table(
                    "Measures",
                    (
                        "measure",
                        "value with noise",
                        "standard deviation of the noise",
                        "two deviations either way",
                    ),
                    measured,
                    numeric=(1, 2, 3),
                ),
                Text(
                    "The average total variation is the share of rows that would have to change for the tables to agree, averaged over all sets of so many columns; lower is better, "
                    "and two samples of one population are not at zero either."
                ),
            ],
        ),
        (
            "Privacy spent",
            [
                Text(
                    f"By {spent['accounting']} accounting, {used:.4g} of {spent['total']:.4g} on the ledger of the table is spent, with this and all that was paid from it before."
                )
            ],
        ),
    ]
    return render(Page(title=f"{title}: evaluation under a budget", sections=sections))
