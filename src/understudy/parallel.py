"""Work in several processes: which back end, how many processes, how many threads, how much memory.

Everything runs through joblib. Its own process pool (loky) is the default; Dask, Ray and Spark take the same work to other
machines. Tasks handed to `run` must be *idempotent*: a back end may run one twice when a machine is lost, and a
caller that keeps finished results on disk runs only what is missing the next time.

Two settings of the environment apply where a caller names nothing:

``UNDERSTUDY_BACKEND``
    ``loky``, ``threading``, ``sequential``, ``dask``, ``ray`` or ``spark``.
``UNDERSTUDY_BACKEND_ADDRESS``
    Where the Dask scheduler, Ray cluster or master of Spark is; by default one is started on this machine.

Nothing here touches private data.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from understudy.errors import BudgetError, DomainTooLarge, MissingExtra, UnderstudyError, UsageError

__all__ = ["BACKENDS", "Workers", "available_mb", "run", "workers"]

T = TypeVar("T")
Task = tuple[Callable[..., T], tuple[Any, ...]]

BACKENDS = ("loky", "threading", "sequential", "dask", "ray", "spark")

_MODULES = {
    "dask": ("distributed", "dask[distributed]"),
    "ray": ("ray", "ray"),
    "spark": ("pyspark", "understudy[spark]"),
}
_KEEP_FREE = 0.1  # share of the memory that is left alone


@dataclass(frozen=True)
class Workers:
    """A decision about processes, made before any work begins.

    Attributes
    ----------
    backend
        One of `BACKENDS`; None leaves it to ``joblib.parallel_config``, which means loky unless somebody chose.
    jobs
        Processes; None leaves that to ``joblib.parallel_config`` too.
    threads
        Threads that numerical libraries may use in each of them.
    address
        Of a cluster.
    """

    backend: str | None
    jobs: int | None
    threads: int
    address: str | None = None


def workers(
    jobs: int | None,
    *,
    backend: str | None = None,
    address: str | None = None,
    task_mb: float | None = None,
    tasks: int | None = None,
) -> Workers:
    """Decide how to work in parallel, refusing what cannot be done before it begins.

    Parameters
    ----------
    jobs
        Number of processes; -1 is one per core, -2 one fewer, and so on. None leaves it to joblib. On a cluster of Spark a
        negative number stands for as many tasks as the cluster runs at a time.
    backend
        One of `BACKENDS`; by default ``UNDERSTUDY_BACKEND``, or what joblib is set to.
    address
        Of a Dask scheduler, a Ray cluster or a Spark master; by default ``UNDERSTUDY_BACKEND_ADDRESS``, or one on this machine.
    task_mb
        Memory that one task needs, in megabytes. There are at most as many processes on this machine as fit in
        its free memory.
    tasks
        How many tasks there are: more processes are not started.

    Raises
    ------
    BudgetError
        If the number of processes or the back end makes no sense.
    MissingExtra
        If the back end is not installed.
    DomainTooLarge
        If not even one task fits into memory.

    Examples
    --------
    >>> workers(2, backend="loky", tasks=1).jobs
    1
    >>> workers(2, backend="condor")
    Traceback (most recent call last):
    ...
    understudy.errors.BudgetError: No parallel back end named 'condor'. Known: loky, threading, sequential, dask, ray, spark.
    """
    chosen = backend or os.environ.get("UNDERSTUDY_BACKEND") or None
    if chosen is not None and chosen not in BACKENDS:
        raise BudgetError(f"No parallel back end named {chosen!r}. Known: {', '.join(BACKENDS)}.")
    if jobs == 0:
        raise BudgetError("jobs (0) must be a number of processes, or -1 for one per core.")
    if chosen in _MODULES:
        module, package = _MODULES[chosen]
        try:
            import_module(module)
        except ImportError:
            raise MissingExtra(
                f"The parallel back end {chosen!r} is not installed: pip install '{package}'. "
                "Or leave UNDERSTUDY_BACKEND empty for processes on this machine."
            ) from None
    where = address or os.environ.get("UNDERSTUDY_BACKEND_ADDRESS") or None
    if chosen == "sequential":
        jobs = 1
    remote = chosen in _MODULES and where is not None and not where.startswith("local")
    number = jobs
    if number is not None and not remote:
        if number < 0:
            number = max(1, cores() + 1 + number)
        number = max(1, min(number, tasks if tasks else number))
        if task_mb is not None:
            number = _fitting(number, task_mb)
    threads = max(1, cores() // number) if number else 1
    return Workers(chosen, number, threads, where if chosen in _MODULES else None)


def run(tasks: Iterable[Task[T]], how: Workers) -> Iterator[T]:
    """Run tasks and yield their results as they come, in any order.

    At most twice as many tasks as processes are prepared at a time. The threads of numerical libraries (BLAS,
    OpenMP, Numba, Arrow) are capped in every process, so that processes do not fight for cores.

    Examples
    --------
    >>> sorted(run(((pow, (2, k)) for k in range(4)), workers(1, backend="sequential")))
    [1, 2, 4, 8]
    """
    if how.backend == "spark":
        yield from _on_spark(tasks, how)
        return
    from joblib import Parallel, delayed

    calls = (delayed(_capped)(how.threads, function, *arguments) for function, arguments in tasks)
    with ExitStack() as stack:
        _enter(how, stack)
        try:
            pool = Parallel(n_jobs=how.jobs, pre_dispatch="2*n_jobs", return_as="generator_unordered")
        except ValueError:  # a back end that returns results in batches only
            pool = None
        if pool is not None:
            yield from pool(calls)
            return
        parallel = Parallel(n_jobs=how.jobs)
        size = max(1, 4 * int(parallel.n_jobs or 1))
        batch: list[Any] = []
        for call in calls:
            batch.append(call)
            if len(batch) == size:
                yield from parallel(batch)
                batch = []
        if batch:
            yield from parallel(batch)


def cores() -> int:
    """Return the cores this process may use, cgroups and affinity included."""
    from joblib import cpu_count

    return int(cpu_count())


def available_mb() -> float | None:
    """Return the memory that can still be used, in megabytes, or None where the system does not say.

    The smallest of the machine's, in a container the group's, and what a limit of this process leaves (``ulimit -v``).
    """
    found = [
        free
        for free in (_meminfo(Path("/proc/meminfo")), _cgroup(Path("/sys/fs/cgroup")), _own_limit()[0])
        if free is not None
    ]
    return min(found) if found else None


def memory_limit() -> str:
    """Say which limit on memory holds for this process, to go into a sentence; empty where there is none but the machine's.

    Examples
    --------
    >>> memory_limit() == "" or memory_limit().startswith(": this process may use")
    True
    """
    own = _own_limit()[1]
    try:
        group: str | None = (Path("/sys/fs/cgroup") / "memory.max").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        group = None
    found = [f"{own:,.0f} MB (ulimit -v)"] if own is not None else []
    found += (
        [f"{int(group) / 2**20:,.0f} MB (control group)"] if group is not None and group.isdecimal() else []
    )
    return f": this process may use {' and '.join(found)}" if found else ""


def _own_limit() -> tuple[float | None, float | None]:
    """Return what the limit on this process's address space leaves, and the limit, in megabytes; None where there is none."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None, None
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        used = pages * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None, None
    return max(0.0, (limit - used) / 2**20), limit / 2**20


def _fitting(number: int, task_mb: float) -> int:
    free = available_mb()
    if free is None:
        return number
    fits = int(free * (1 - _KEEP_FREE) / max(1.0, task_mb))
    if fits < 1:
        raise DomainTooLarge(
            f"One task needs about {task_mb:,.0f} MB and {free:,.0f} MB are free. Use smaller chunks, a smaller workload "
            "or domain, or a machine with more memory.",
            cells=int(task_mb * 2**20 / 8),
            allowed=int(free * 2**20 / 8),
        )
    return min(number, fits)


def _meminfo(path: Path) -> float | None:
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup(folder: Path) -> float | None:
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = (folder / "memory.current").read_text(encoding="ascii").strip()
        return None if limit == "max" else max(0.0, (int(limit) - int(used)) / 2**20)
    except (OSError, ValueError):
        return None


def _enter(how: Workers, stack: ExitStack) -> None:
    """Make joblib use the back end until the stack is closed."""
    from joblib import parallel_config

    if how.backend is None:
        return
    if how.backend == "dask":
        distributed = import_module("distributed")
        client = distributed.Client(how.address) if how.address else distributed.Client(n_workers=how.jobs)
        stack.enter_context(client)
    elif how.backend == "ray":
        ray = import_module("ray")
        if not ray.is_initialized():
            ray.init(address=how.address, num_cpus=None if how.address else how.jobs, log_to_driver=False)
            stack.callback(ray.shutdown)
        import_module("ray.util.joblib").register_ray()
    more = {"inner_max_num_threads": how.threads} if how.backend == "loky" else {}
    stack.enter_context(parallel_config(backend=how.backend, n_jobs=how.jobs, **more))


def _on_spark(tasks: Iterable[Task[T]], how: Workers) -> Iterator[T]:
    """Run each task as a job of Spark, several at a time, so that results come as they are ready.

    Spark runs a task again whose executor was lost, and may run two copies of a slow one; tasks are idempotent.
    """
    from pyspark.sql import SparkSession

    mine = SparkSession.getActiveSession() is None
    builder = SparkSession.builder.appName("understudy").config("spark.ui.showConsoleProgress", "false")
    if how.address is not None:
        builder = builder.master(how.address)
    elif mine and "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has a master of its own
        builder = builder.master(f"local[{how.jobs or cores()}]")
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise UsageError(
            f"Spark could not be started ({type(error).__name__}). Check the address in UNDERSTUDY_BACKEND_ADDRESS, and that there is Java "
            "(JAVA_HOME)."
        ) from error
    context = spark.sparkContext
    if str(context.master).startswith("local[") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # executors of this machine run what runs here
    group = f"understudy-{os.getpid()}-{id(tasks):x}"
    number = how.jobs if how.jobs is not None and how.jobs > 0 else max(1, int(context.defaultParallelism))

    def job(function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        context.setJobGroup(group, "understudy", interruptOnCancel=True)
        call = (_version(), how.threads, function, arguments)
        try:
            done, found = context.parallelize([call], 1).map(_on_executor).collect()[0]
        except Exception as error:
            raise _lost(error) from None
        if not done:
            kind, words, facts = found
            failure = kind.__new__(kind, *words)
            failure.args = words  # errors of the system leave that to what initialises them
            failure.__dict__.update(facts)
            raise failure
        return found  # type: ignore[no-any-return]

    pending: set[Future[T]] = set()
    pool = ThreadPoolExecutor(number)
    try:
        for function, arguments in tasks:
            pending.add(pool.submit(job, function, arguments))
            if len(pending) >= 2 * number:
                ready, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (item.result() for item in ready)
        while pending:
            ready, pending = wait(pending, return_when=FIRST_COMPLETED)
            yield from (item.result() for item in ready)
    finally:
        for item in pending:
            item.cancel()
        if pending:
            context.cancelJobGroup(group)
        pool.shutdown()
        if mine:
            spark.stop()


def _on_executor(call: tuple[str, int, Callable[..., T], tuple[Any, ...]]) -> tuple[bool, Any]:
    """Run a task on an executor; an error of ours comes back as a value, since Spark would run the task again and pass on its text alone."""
    of_driver, threads, function, arguments = call
    if of_driver != _version():
        words = f"The executors have Understudy {_version()} and the driver {of_driver}. Install one version on both."
        return False, (UsageError, (words,), {})
    try:
        return True, _capped(threads, function, *arguments)
    except UnderstudyError as error:
        return False, (type(error), error.args, error.__dict__)


def _version() -> str:
    """Return the version that is installed here."""
    try:
        return version("understudy")
    except PackageNotFoundError:  # a checkout that is not installed
        return "of a checkout"


def _lost(error: Exception) -> Exception:
    """Return the error for a task that Spark gave up."""
    text = str(error)
    if "ModuleNotFoundError" in text:
        return MissingExtra(
            "The executors of Spark cannot import Understudy or what it needs. Install it there, and name their Python (PYSPARK_PYTHON)."
        )
    if "PYTHON_VERSION_MISMATCH" in text:
        return UsageError(
            "The executors of Spark run another version of Python than the driver. Name the same one for both (PYSPARK_PYTHON)."
        )
    return RuntimeError(f"Spark gave up a task ({type(error).__name__})")


def _capped(threads: int, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function with few threads; libraries loaded later follow the environment of the process."""
    with ExitStack() as stack:
        with suppress(ImportError):  # without it BLAS and OpenMP follow the environment alone
            stack.enter_context(import_module("threadpoolctl").threadpool_limits(limits=threads))
        for module, number, limit in (
            ("numba", "get_num_threads", "set_num_threads"),
            ("pyarrow", "cpu_count", "set_cpu_count"),
            ("torch", "get_num_threads", "set_num_threads"),
        ):
            library = sys.modules.get(module)
            if library is not None:
                before = getattr(library, number)()
                if before > threads:
                    getattr(library, limit)(threads)
                    stack.callback(getattr(library, limit), before)
        return function(*arguments)
