"""The folder in which a sample grows until it is complete.

Layout, beside the folder that is wanted::

    .NAME.unfinished/
        plan.json          what is being written; only an equal plan goes on
        model.understudy   the model, so that a sample can be finished whatever became of the original
        targets.npy        the model's marginals, shared by all processes
        counts-WAVE.npy    counts of all rows of earlier waves
        done-CHUNK.npz     written last for every chunk: its counts, and how the fit went
        parts/             the files; renamed to NAME, in one step, when all are there

A folder named NAME is therefore never incomplete. All of this is post-processing of a released model.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy._system import require_posix, take_lock
from understudy.data import check_output_format, replacing, require_folder, sync, write_text
from understudy.data.output import is_folder
from understudy.errors import OutputError
from understudy.mechanisms import Model, save_model

__all__ = ["Staging", "is_folder", "unfinished"]


def unfinished(out: str | os.PathLike[str]) -> Path | None:
    """Return the unfinished sample that is to become ``out``, if there is one."""
    staging = Staging(out)
    return staging.root if staging.root.exists() else None


class Staging:
    """Paths and files of one unfinished sample.

    Parameters
    ----------
    out
        The folder that is wanted. Its name says the format of the parts: ``.parquet``, ``.csv`` or ``.csv.gz``.
    """

    def __init__(self, out: str | os.PathLike[str]) -> None:
        self.out = Path(os.path.abspath(os.fspath(out)))
        self.root = self.out.with_name(f".{self.out.name}.unfinished")
        self.parts = self.root / "parts"
        self.model = self.root / "model.understudy"
        self.plan = self.root / "plan.json"
        self.targets = self.root / "targets.npy"

    @property
    def suffix(self) -> str:
        """The ending of each part."""
        name = self.out.name.lower()
        return next(end for end in (".csv.gz", ".csv", ".parquet", ".pq") if name.endswith(end))

    def require_free(self) -> None:
        """Refuse a folder that is there, or whose name says no format."""
        check_output_format(self.out)
        if self.out.exists() and not (self.out.is_dir() and not any(self.out.iterdir())):
            raise OutputError(
                f"{str(self.out)!r} exists already and is left as it is. Remove it, or choose another name."
            )
        require_folder(self.out.parent, what="output")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing the same sample."""
        require_posix("A sample in parts")
        try:
            self.root.mkdir(exist_ok=True)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _refused(self.out, error) from None
        try:
            if not take_lock(descriptor):
                raise OutputError(f"Another process is writing {str(self.out)!r} at this moment.")
            yield
        finally:
            os.close(descriptor)

    def begin(self, model: Model | Path) -> str:
        """Put the model in place; return a digest of its content."""
        try:
            if isinstance(model, Model):
                save_model(model, self.model)
            elif model.resolve() != self.model.resolve():
                temporary = self.root / f".model.{secrets.token_hex(6)}"
                shutil.copyfile(model, temporary)
                temporary.replace(self.model)
            self.parts.mkdir(exist_ok=True)
        except OutputError:
            raise
        except OSError as error:
            raise _refused(self.out, error) from None
        return content_digest(self.model)

    def read_plan(self) -> dict[str, Any] | None:
        """Return the plan of the sample that is growing here, or None."""
        try:
            plan = json.loads(self.plan.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return plan if isinstance(plan, dict) else None

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Say what is being written."""
        write_text(self.plan, json.dumps(plan, indent=1, sort_keys=True) + "\n")

    def counts(self, wave: int) -> Path:
        """Where the counts of all rows before a wave are."""
        return self.root / f"counts-{wave:06d}.npy"

    def done(self, chunk: int) -> Path:
        """What shows that a chunk is complete."""
        return self.root / f"done-{chunk:06d}.npz"

    def publish(self, manifest: Mapping[str, Any], *, files: int) -> None:
        """Give the complete folder its name, in one step, and clear away the rest.

        Only with as many parts as were made. What a killed process left half written goes first.
        """
        for path in self.parts.rglob(".*.tmp"):
            path.unlink(missing_ok=True)
        if sum(1 for path in self.parts.rglob(f"part-*{self.suffix}") if path.is_file()) != files:
            raise self.lost()
        write_text(self.parts / "_manifest.json", json.dumps(manifest, indent=1) + "\n")
        try:
            sync(self.parts)
            if self.out.is_dir():
                self.out.rmdir()
            os.rename(self.parts, self.out)
            sync(self.out.parent)
        except OSError as error:
            raise _refused(self.out, error) from None
        shutil.rmtree(self.root, ignore_errors=True)

    def lost(self) -> OutputError:
        """Return the error for files that were there and are not."""
        return OutputError(
            f"The unfinished sample in {str(self.root)!r} lost some of its files. Throw it away (restart)."
        )

    def clear(self, *, keep: Path | None = None) -> None:
        """Remove what there is, to start clean; not the model that the new sample is drawn from."""
        kept = {self.root / "lock", None if keep is None else keep.resolve()}
        for path in self.root.glob("*"):
            if path not in kept and path.resolve() not in kept:
                try:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                except OSError as error:
                    raise _refused(self.out, error) from None


def save_array(path: Path, arrays: Sequence[npt.NDArray[Any]], dtype: Any) -> None:
    """Write arrays as one flat file, complete or not at all."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (sum(a.size for a in arrays),)}
    with replacing(path) as file:
        np.lib.format.write_array_header_2_0(file, header)
        for array in arrays:
            file.write(np.ascontiguousarray(array, dtype).tobytes())


def load_array(path: Path, sizes: Sequence[int]) -> list[npt.NDArray[Any]]:
    """Return the arrays of a flat file, read from the disk where they are needed and shared between processes."""
    if not sum(sizes):
        return [np.zeros(0) for _ in sizes]
    flat = np.load(path, mmap_mode="r")
    ends = np.cumsum(sizes)
    return [flat[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def content_digest(path: Path) -> str:
    """Return a digest of what is in a model file; the time at which it was saved does not count."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            digest.update(name.encode("utf-8") + b"\0" + hashlib.sha256(archive.read(name)).digest())
    return digest.hexdigest()


def _refused(out: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{str(out)!r} cannot be written: {error.strerror or 'the system refused'}. What is finished is kept; give the "
        "same command again when the cause is gone."
    )
