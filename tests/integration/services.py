"""Real services for the integration tests, started and stopped here: PostgreSQL on loopback, Spark on this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BINARIES = (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/local/bin"))

_INITDB = ("--auth=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync")


@dataclass(frozen=True)
class Postgres:
    """A running server: its address without a password, and where the password is."""

    url: str
    folder: Path
    password: str
    pid: int
    passfile: Path
    starting: tuple[str, ...] = ()

    def kill(self):
        """Kill the server as a lack of memory would: without a word to its clients."""
        os.kill(int((self.folder / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def start(self):
        """Start it again; what it had left is recovered."""
        for _ in range(60):
            done = subprocess.run(self.starting, cwd=self.folder.parent, check=False, capture_output=True)
            if done.returncode == 0:
                return
            time.sleep(0.5)  # processes of the one that was killed still hold its memory
        raise AssertionError(done.stderr.decode())

    def connect(self):
        import psycopg

        return psycopg.connect(self.url, autocommit=True, password=self.password)

    def fill(self, name, table):
        """Make a table of the records of an Arrow table, in place of one of that name and of the views on it."""
        import pyarrow as pa

        kinds = {
            "string": "text",
            "int64": "bigint",
            "int16": "smallint",
            "double": "double precision",
            "float": "real",
            "date32[day]": "date",
            "bool": "boolean",
        }
        enumerations = {}

        def kind_of(field):
            if pa.types.is_timestamp(field.type):
                return "timestamp" if field.type.tz is None else "timestamptz"
            if pa.types.is_decimal(field.type):
                return f"numeric({field.type.precision}, {field.type.scale})"
            if pa.types.is_dictionary(field.type):
                labels = table[field.name].combine_chunks().dictionary.to_pylist()
                enumerations[f"{name}_{field.name}"] = ", ".join(
                    "'" + label.replace("'", "''") + "'" for label in labels
                )
                return f'"{name}_{field.name}"'
            return kinds.get(str(field.type), "text")

        columns = ", ".join(f'"{field.name}" {kind_of(field)}' for field in table.schema)
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SET lock_timeout = '30s'"
            )  # a snapshot that somebody left open is an error, not a wait
            cursor.execute(f'DROP TABLE IF EXISTS "{name}" CASCADE')
            for label, values in enumerations.items():
                cursor.execute(f'DROP TYPE IF EXISTS "{label}"')
                cursor.execute(f'CREATE TYPE "{label}" AS ENUM ({values})')
            cursor.execute(f'CREATE TABLE "{name}" ({columns})')
            with cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)


def missing_postgres():
    """Say why PostgreSQL cannot be started here; None if it can."""
    if _binaries() is None:
        return "no PostgreSQL server (Debian: apt-get install postgresql)"
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root and setpriv is absent (Debian: util-linux)"
    return None


def _binaries():
    return next((folder for folder in BINARIES if (folder / "initdb").exists()), None)


def _as_user(command):
    """Run as an ordinary user: the server refuses to run as root."""
    if os.getuid() != 0:
        return command
    import pwd

    names = [name for name in ("postgres", "nobody") if _exists(pwd, name)]
    user = pwd.getpwnam(names[0])
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *command]


def _exists(pwd, name):
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


@contextmanager
def postgres_server():
    """Start a server on a free port of the loopback device, in a fresh folder, and remove it afterwards."""
    binaries = _binaries()
    assert binaries is not None
    base = Path(tempfile.mkdtemp(prefix="understudy-pg-"))
    base.chmod(0o777)
    password = secrets.token_hex(12)
    given = base / "password"
    given.write_text(password)
    given.chmod(0o644)
    folder = base / "data"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    quiet = {"cwd": base, "check": True, "capture_output": True}
    try:
        subprocess.run(
            _as_user(
                [str(binaries / "initdb"), "-D", str(folder), "-U", "clerk", f"--pwfile={given}", *_INITDB]
            ),
            **quiet,
        )
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {base} -c fsync=off -c max_parallel_workers=0"
        start = ["-D", str(folder), "-o", options, "-l", str(base / "log"), "-w", "start"]
        starting = tuple(_as_user([str(binaries / "pg_ctl"), *start]))
        subprocess.run(starting, **quiet)
        passfile = base / "pgpass"
        passfile.write_text(f"127.0.0.1:{port}:*:clerk:{password}\n")
        passfile.chmod(0o600)
        pid = int((folder / "postmaster.pid").read_text().split()[0])
        url = f"postgresql://clerk@127.0.0.1:{port}/postgres"
        yield Postgres(url, folder, password, pid, passfile, starting)
        subprocess.run(
            _as_user([str(binaries / "pg_ctl"), "-D", str(folder), "-m", "immediate", "-w", "stop"]),
            cwd=base,
            check=False,
            capture_output=True,
        )
    finally:
        shutil.rmtree(base, ignore_errors=True)


def missing_spark():
    """Say why Spark cannot be started here; None if it can. Points JAVA_HOME to Java 17 where it is."""
    import importlib.util

    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed (pip install 'understudy[spark]')"
    for home in (os.environ.get("JAVA_HOME"), *sorted(Path("/usr/lib/jvm").glob("*17*"))):
        if home and (Path(home) / "bin" / "java").exists() and _version(Path(home)).startswith('"17'):
            os.environ["JAVA_HOME"] = str(home)
            return None
    return "no Java 17 (Debian: apt-get install openjdk-17-jre-headless)"


def _version(home):
    told = subprocess.run(
        [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, check=False
    )
    return told.stderr.partition("version ")[2]
