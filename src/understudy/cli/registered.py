"""Every command, hung onto the application. Heavy imports happen inside the commands."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add all commands to the application."""
    from understudy.cli.commands import (
        audit,
        bench,
        demo,
        discover,
        evaluate,
        ledger,
        methods,
        plan,
        rehearse,
        release,
        sample,
        schema,
        synth,
    )
    from understudy.cli.commands import bundle as report
    from understudy.cli.commands import bundle as verify

    if app.registered_commands:
        return
    app.command("demo")(demo.demo)
    app.add_typer(schema.app, name="schema")
    app.command("discover")(discover.discover)
    app.command("methods")(methods.show_methods)
    app.command("plan")(plan.plan)
    app.command("synth")(synth.synth)
    app.command("sample")(sample.sample)
    app.command("rehearse")(rehearse.rehearse)
    app.command("release")(release.release)
    app.command("verify")(verify.verify)
    app.command("report")(report.report)
    app.command("audit")(audit.audit)
    app.command("evaluate")(evaluate.evaluate)
    app.add_typer(ledger.app, name="ledger")
    app.add_typer(bench.app, name="bench")
