"""``understudy verify``, ``report`` and ``open``: whether a published bundle is what it says, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import Browser, Json
from understudy.data.output import require_writable
from understudy.errors import OutputError, UnderstudyError

# ----------------------------------------------------------------------------------------
# ``understudy report``: the page of a release, made again from its bundle.


def report(
    bundle: Annotated[Path, typer.Argument(help="Folder of a published release.")],
    out: Annotated[Path, typer.Option("--out", help="Page to write (.html), outside the bundle.")] = Path(
        "report.html"
    ),
    json: Json = False,
) -> None:
    """Write the report of a bundle, from the bundle alone.

    The bundle is verified first and not touched: its own report.html is part of what was published.
    """
    from understudy.cli.output import print_json, tell
    from understudy.data import write_text
    from understudy.release.bundle.reporting import bundle_report
    from understudy.release.bundle.verify import verify_bundle
    from understudy.report import release_page

    if bundle.resolve() in (out.resolve().parent, *out.resolve().parent.parents):
        raise OutputError("A published bundle is not changed; write the report elsewhere (--out).")
    require_writable(out, what="report")
    verify_bundle(bundle)
    write_text(out, release_page(bundle_report(bundle)))
    if json:
        print_json({"out": str(out)})
        return
    tell(f"Wrote {out}. Open it in a browser; it needs no network.")


def open_report(
    bundle: Annotated[Path, typer.Argument(help="Folder of a published release.")],
    browser: Browser = True,
    json: Json = False,
) -> None:
    """Open the report of a bundle in the browser.

    Its hashes and guarantee are checked first: a page that somebody changed is not opened.
    """
    import webbrowser

    from understudy.cli.output import print_json, say, tell
    from understudy.release.bundle.verify import verify_bundle

    verify_bundle(bundle)
    page = (bundle / "report.html").resolve()
    opened = browser and webbrowser.open(page.as_uri())
    if json:
        print_json({"report": str(page), "opened": opened})
        return
    tell(str(page))
    if browser and not opened:
        say("No browser could be started here; open that file in one.")


def verify(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="Folder of a published release; or a specification, ledger or file that was signed.",
        ),
    ],
    signature: Annotated[
        list[Path] | None,
        typer.Option(
            "--signature", help="Further statement files to check; those that lie beside PATH are found."
        ),
    ] = None,
    trusted: Annotated[
        bool,
        typer.Option("--trusted", help="Fail unless a key that is trusted here has signed it."),
    ] = False,
    json: Json = False,
) -> None:
    """Check that a bundle is what was published, and say who signed it.

    Hashes, guarantee, conformance to the schema and approvals are recomputed from the bundle alone. Signatures lie in files
    beside it; the same goes for a specification, a ledger or any other file that was signed.
    """
    from understudy.cli.output import print_json, tell
    from understudy.errors import SignatureError
    from understudy.release.agreement import Agreement
    from understudy.release.bundle.verify import verify_bundle
    from understudy.release.signing import approvals_of, bundle_subject, check_statements, subject_of

    try:
        certificate = verify_bundle(path) if path.is_dir() or not path.exists() else None
    except UnderstudyError as error:
        if json:
            nothing: dict[str, Any] = {"subject": None, "approvals": [], "signatures": []}
            print_json({"verified": False, "problem": str(error)} | nothing)
        raise
    about = subject_of(path) if certificate is None else bundle_subject(path, certificate)
    statements = check_statements(path, files=signature or (), about=about)
    approvals = () if certificate is None else approvals_of(certificate)
    wrong = [item for item in statements if item.problems]
    problem = ""
    if wrong:
        listed = "\n".join(f"  - {item.describe()}" for item in wrong)
        problem = f"Not every statement about {str(path)!r} holds:\n{listed}"
    elif trusted and not any(item.trusted is not None for item in statements):
        problem = f"No key that is trusted here has signed {str(path)!r}."
    if json:
        known: dict[str, Any] = {} if certificate is None else {"certificate": certificate}
        about_it = {"kind": about.kind, "hash": about.hash, "name": about.name}
        print_json(
            {"verified": not problem, "problem": problem, "subject": about_it, **known}
            | {"approvals": [item.to_dict() for item in approvals]}
            | {"signatures": [item.to_dict() for item in statements]}
        )
    else:
        if certificate is not None:
            tables = certificate.get("tables") or {}
            sizes = ", ".join(f"{name} with {rows:,} rows" for name, rows in tables.items())
            held = sizes or f"{certificate['rows']:,} rows"
            tell(f"The bundle {str(path)!r} is intact: {held}, all files as published.")
            charges = sum(entry.get("event") is not None for entry in certificate["ledger"]["entries"])
            counted = "1 charge" if charges == 1 else f"{charges} charges"
            tell(f"Guarantee, recomputed from {counted}: {certificate['guarantee']['words']}")
            for item in approvals:
                tell(f"Specification {item.describe()}")
            if "agreement" in certificate:
                agreement = Agreement.from_dict(certificate["agreement"])
                counted = "1 comment" if agreement.number == 1 else f"{agreement.number} comments"
                tell(f"The agreement that was signed, with {counted}, has the hash {agreement.hash[:12]}.")
        tell(f"This {about.kind} has the hash {about.hash}.")
        for item in statements:
            tell(item.describe())
        if not statements:
            tell("Nobody signed it, as far as can be seen from here: no statement file lies beside it.")
    if problem:
        raise SignatureError(problem)
