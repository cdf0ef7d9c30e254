"""The command line: one application, one place where errors become messages and exit codes (:mod:`understudy.cli.exits`)."""

from __future__ import annotations

import _thread
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from understudy._system import require_posix
from understudy.cli.entry import INTERRUPTED as _INTERRUPTED
from understudy.cli.exits import Exit
from understudy.errors import (
    BudgetError,
    LedgerError,
    OutputError,
    UnderstudyError,
    UsageError,
    place_of,
    without_password,
)

app = typer.Typer(
    name="understudy",
    help="Make a differentially private stand-in for a sensitive table.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(show: bool) -> None:
    if show:
        import understudy

        sys.stdout.write(f"understudy {understudy.__version__}\n")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
    log_json: str | None = typer.Option(
        None,
        metavar="FILE",
        envvar="UNDERSTUDY_LOG_JSON",
        help="Append what the command does to this file (- for standard error), as lines of JSON without private values.",
    ),
    operator: str | None = typer.Option(
        None,
        metavar="NAME",
        envvar="UNDERSTUDY_OPERATOR",
        help="Who runs the command: written into each new line of the ledger.",
    ),
    operator_host: bool = typer.Option(
        False,
        "--operator-host",
        envvar="UNDERSTUDY_OPERATOR_HOST",
        help="Write the name of this machine into each new line of the ledger as well.",
    ),
) -> None:
    """Make a differentially private stand-in for a sensitive table."""
    from understudy.cli.logs import open_log

    if log_json:
        open_log(log_json, context.invoked_subcommand or "")
    if operator or operator_host:
        from understudy.privacy.ledger.operator import operated_by

        context.with_resource(operated_by(operator or "", host=operator_host))


def exit_code(error: UnderstudyError) -> Exit:
    """Return the documented exit code of an error."""
    if isinstance(error, UsageError):
        return Exit.USAGE
    if isinstance(error, BudgetError):
        return Exit.BUDGET
    if isinstance(error, LedgerError):
        return Exit.LEDGER
    if isinstance(error, OutputError):
        return Exit.OUTPUT
    return Exit.INPUT


def _with_code(error: UnderstudyError) -> str:
    """Return the message with the code to look up in the documentation behind it; below it, where it has several lines."""
    message = str(error)
    return f"{message}{chr(10) if chr(10) in message else ' '}[{error.code}]"


def register(app: typer.Typer) -> None:
    """Add all commands to an application; what a command itself needs is imported when it runs."""
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
        studio,
        synth,
    )
    from understudy.cli.commands import bundle as report
    from understudy.cli.commands import bundle as verify
    from understudy.cli.commands.operations import register as several
    from understudy.cli.commands.operations import warm
    from understudy.cli.commands.series import compare, refresh
    from understudy.cli.commands.signing import keys, sign
    from understudy.cli.options import formerly

    if app.registered_commands:
        return
    app.command("demo")(demo.demo)
    app.add_typer(schema.app, name="schema")
    app.command("discover")(discover.discover)
    app.command("methods")(methods.show_methods)
    app.command("plan", cls=formerly(rows="--rows-about"))(plan.plan)
    app.command("synth")(synth.synth)
    app.command("sample")(sample.sample)
    app.command("rehearse")(rehearse.rehearse)
    app.command("release")(release.release)
    app.command("verify")(verify.verify)
    app.command("report")(report.report)
    app.command("open")(report.open_report)
    app.command("refresh")(refresh.refresh)
    app.command("compare")(compare.compare)
    app.command("approve")(sign.approve)
    app.command("sign")(sign.sign)
    app.add_typer(keys.app, name="keys")
    app.command("audit")(audit.audit)
    app.command("evaluate", cls=formerly(holdout="--hold-out-table"))(evaluate.evaluate)
    app.add_typer(ledger.app, name="ledger")
    app.add_typer(bench.app, name="bench")
    app.command("register")(several.register)
    app.command("warm")(warm.warm)
    app.add_typer(studio.app, name="studio")


def prepare() -> None:
    """Make every command known."""
    register(app)


def run() -> None:
    """Run the command line; every deliberate error becomes a message without a traceback.

    An unexpected fault is reported by its type and place alone: its message could quote a record.
    """
    from understudy.cli.logs import close_log

    code: int | None = 0
    try:
        _run()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else Exit.FAULT
        raise
    except BaseException:
        code = Exit.FAULT
        raise
    finally:
        close_log(code)


def _run() -> None:
    """Run the command line and end with its exit code."""
    from understudy.cli.logs import log

    try:
        require_posix("Understudy's command line")
        prepare()
        with _discreet():
            code = app(prog_name="understudy", standalone_mode=False)
        if code == Exit.INTERRUPTED:  # the application turns an interrupt into this, without a word
            raise KeyboardInterrupt
        if isinstance(code, int) and code:
            raise SystemExit(code)
    except UnderstudyError as error:
        log("error", "error", code=error.code, message=str(error))
        sys.stderr.write(f"error: {_with_code(error)}\n")
        raise SystemExit(exit_code(error)) from None
    except KeyboardInterrupt:
        log("interrupted", "error")
        sys.stderr.write(_INTERRUPTED)
        raise SystemExit(Exit.INTERRUPTED) from None
    except typer.Abort:
        sys.stderr.write("Stopped at your word. Nothing was spent.\n")
        raise SystemExit(Exit.INTERRUPTED) from None
    except BrokenPipeError:
        raise
    except MemoryError:
        from understudy.parallel import memory_limit

        limit = memory_limit()
        log("error", "error", code="memory", message=f"The memory ran out{limit}.")
        sys.stderr.write(
            f"error: the memory ran out{limit}. What the ledger shows as spent is spent; synth and release keep its answers, and the same command goes on. Use a "
            "smaller workload or domain, or allow more memory.\n"
        )
        raise SystemExit(Exit.FAULT) from None
    except PermissionError as closed:
        named = closed.filename if isinstance(closed.filename, str | Path) else "a file or folder"
        message = without_password(
            f"{str(named)!r} may not be reached by this user. Check its permissions and those of the folders above it."
        )
        log("error", "error", code="permission", message=message)
        sys.stderr.write(f"error: {message}\n")
        raise SystemExit(Exit.INPUT) from None
    except Exception as fault:
        if hasattr(fault, "format_message"):  # the parser's own errors, whichever package they come from
            raise SystemExit(_misunderstood(fault)) from None
        where = place_of(fault) or "unknown"
        log("fault", "error", kind=type(fault).__name__, where=where)
        sys.stderr.write(
            f"error: an unexpected {type(fault).__name__} at {where}. {_whose(fault, where)} Its details are withheld because they could quote "
            "private data. What the ledger shows as spent is spent.\n"
        )
        raise SystemExit(Exit.FAULT) from None


def _whose(fault: BaseException, where: str) -> str:
    """Say whose fault it is: Understudy's, or that of a package which brings a mechanism or a criterion."""
    for package, modules in _packages_that_add().items():
        inside = sorted(filter(None, (place_of(fault, module) for module in modules)))
        if where in inside:
            return f"This is a fault of the package {package}: whoever wrote it can repair it."
        if inside:
            return f"It was called by the package {package} at {', '.join(inside)}: whoever wrote that can look first."
    return "This is a fault of Understudy."


def _packages_that_add() -> dict[str, set[str]]:
    """Return the installed packages that bring mechanisms or criteria, with the top-level modules of each."""
    from importlib.metadata import entry_points, packages_distributions

    points = [
        point
        for group in ("understudy.methods", "understudy.criteria")
        for point in entry_points(group=group)
    ]
    found: dict[str, set[str]] = {}
    for point in points:
        name = "unknown" if point.dist is None else point.dist.name
        found.setdefault(name, set()).add(point.module.partition(".")[0])
    if found:
        for module, owners in packages_distributions().items():
            for name in found.keys() & set(owners):
                found[name].add(module)
    return {name: modules - {"understudy"} for name, modules in found.items()}


def _misunderstood(error: Any) -> Exit:
    """Say what the parser of the command line did not understand, as every other error is said."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return Exit.USAGE
    context = getattr(error, "ctx", None)
    where = "understudy" if context is None else context.command_path
    said = without_password(error.format_message().rstrip("."))
    if "Missing option" in said and "'--unit'" in said:
        said += ": who is protected. One row per person: --unit add-remove; several rows of a person: also --id-column and --max-rows-per-person"
    elif getattr(error, "option_name", "") == "--plan" and where.endswith(" synth"):
        said = "synth has no --plan. What a fit will do: understudy plan --schema FILE; what learning a schema will ask: understudy discover TABLE --plan"
    sys.stderr.write(f"error: {said}. See: {where} --help\n")
    return Exit.USAGE


@contextmanager
def _discreet() -> Iterator[None]:
    """Keep the interpreter from printing what could quote a record: warnings, and errors that nobody can catch."""
    before = sys.unraisablehook, threading.excepthook, warnings.showwarning
    again: list[threading.Timer] = []

    def lost(what: Any) -> None:
        if what.exc_type is not None and issubclass(what.exc_type, KeyboardInterrupt):
            # swallowed by foreign code that called back into Python: interrupt again a moment later
            again.append(threading.Timer(0.02, _thread.interrupt_main))
            again[-1].daemon = True
            again[-1].start()

    sys.unraisablehook, threading.excepthook = lost, lost
    warnings.showwarning = lambda *_, **__: None
    try:
        yield
    finally:
        for timer in again:
            timer.cancel()
        sys.unraisablehook, threading.excepthook, warnings.showwarning = before


if __name__ == "__main__":
    from understudy.cli.entry import main

    main()
