"""Every sentence of the report in one place, so that it can be translated. Braces are filled in; names stay."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ENGLISH", "Texts"]

Texts = Mapping[str, str]

ENGLISH: Texts = {
    "language": "en",
    "direction": "ltr",
    "title": "{title}: release report",
    "subtitle": "{rows} synthetic rows, {columns} columns. Read this before you use the table.",
    "contents": "Contents",
    "theme": "Switch between light and dark",
    "skip": "Skip to the content",
    "rows_of": "{shown} of {all} rows",
    # headings
    "h_what": "What this is, and why to trust it",
    "h_you": "What it means if you are in the real data",
    "h_budget": "Who spent what of the privacy budget",
    "h_criteria": "What was promised, and checked, before publication",
    "h_measured": "The table beside what was measured",
    "h_bounds": "How large errors can be",
    "h_use": "What to use it for, and what not",
    "h_process": "How it was made",
    "h_dictionary": "The columns",
    "h_files": "The files, and how to check them",
    # what
    "what": "This table is synthetic: none of its rows is the record of a person. It stands in for a sensitive table and "
    "was made so that every look at the real records was differentially private. Every such look is listed below with "
    "its price, and the prices add up to the guarantee.",
    "card_rows": "synthetic rows",
    "card_criteria": "criteria met",
    "card_unit": "protected: neighbouring tables {unit}",
    "condition": "Condition of the guarantee, and of all that is said about it here: {condition}",
    # you
    "you": "Suppose somebody wants to find out whether you are in the real data, or something about you that only your "
    "record tells. Whatever they know already, and whatever they compute from this table, the guarantee limits how much "
    "surer they can become.",
    "you_guess": "Somebody who tosses a coin on whether you are in the real data is right half of the time. With this table, "
    "nobody is right with a chance of more than {chance}.",
    "you_certainty": "Noise is random, so a single outcome can be more telling than others. The second and third columns hold with "
    "a chance of at least {chance}, the last one in 95 of 100 cases.",
    "you_always": "The second and third columns hold for every outcome, whatever the noise; the last one in 95 of 100 cases.",
    "you_allowed": "These numbers are those of {guarantee}, which is what the parts of this release add up to; it was allowed {allowed}.",
    "odds_caption": "How sure an attacker can become",
    "odds_before": "sure before seeing the table",
    "odds_after": "sure afterwards, at most",
    "odds_least": "sure afterwards, at least",
    "odds_usual": "sure afterwards, usually at most",
    "trade": "No attacker can do better than the curve: the share of people in the data that he recognises, against the "
    "share of others that he accuses wrongly. On the dashed line he could as well toss a coin.",
    "trade_label": "Best possible attack: true positives against false positives, from a coin toss to the guarantee's limit",
    "public": "Treated as public knowledge (and therefore not protected), or measured instead:",
    # budget
    "budget": "The ledger charged each act before it drew its noise. By {accounting} accounting, in {symbol}:",
    # criteria
    "criteria": "The criteria were fixed before any record was read. The table was published because it met all of them.",
    "criteria_pass_only": "They were folded into one test that released a single bit: the smallest distance to a threshold, in "
    "records, plus noise of scale {scale}, had to exceed {threshold}. A table that violates a criterion passes with a "
    "chance of at most {false_accept}.",
    "criteria_caption": "Acceptance criteria",
    "criteria_head": "criterion|metric|threshold|result|mechanism|noise deviation",
    # measured
    "measured": "Bars: the synthetic table. Points: what was measured on the real table, with noise added for privacy; the "
    "lines reach two standard deviations of that noise either way. The real numbers themselves appear nowhere.",
    "measured_none": "The method that made this table keeps no marginals to compare with.",
    "pairs": "Pairs of columns: where the synthetic table has more (blue) or fewer (orange) rows than measured, in standard "
    "deviations of the noise. Pale is good; noise alone colours one cell in twenty noticeably.",
    # bounds
    "bounds": "With a confidence of {confidence}, the errors of the synthetic table on these columns, added up over all cells "
    "as a share of the rows, are no larger than the bound. Bounds come from the noisy measurements alone.",
    "bounds_caption": "Error bounds",
    "bounds_head": "columns|kind|bound",
    "bounds_none": "This method gives no error bounds.",
    # use
    "intended": "Intended: statistics like those the criteria cover, and the tables of counts whose bounds above are small "
    "enough for your purpose.",
    "unintended": "Not intended: looking for individuals or unusual records; tests that take the rows for independent "
    "draws; models that nobody checks elsewhere; any statistic far from the criteria. No promise is made about those.",
    # process
    "process_caption": "Production",
    "process_head": "step|what was done",
    "dictionary_caption": "Data dictionary",
    "dictionary_head": "column|kind|values|unit|description",
    "files_caption": "Files",
    "files_head": "file|what it is",
    "verify": "Anybody can check hashes, charges and data again, without the real table: understudy verify FOLDER",
}
