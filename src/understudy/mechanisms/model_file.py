"""The model file: a zip of one JSON document and plain NumPy arrays. Never a pickle, never a record.

Layout::

    model.json            format, schema, provenance, measurements without their values, distribution
    arrays/NAME.npy       one array per measurement and per part of the distribution

Reading is defensive: names, sizes and types are checked before anything is allocated, so that a
file from a stranger can be refused but cannot run code or exhaust the memory.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.engine import distribution_from_arrays
from understudy.errors import ModelFileError, OutputError, UnderstudyError
from understudy.inference import History
from understudy.marginals import Measurement, Statistic, SumsOfSigns, Workload
from understudy.schema import Schema

if TYPE_CHECKING:
    from understudy.mechanisms.model import Model

FORMAT = "understudy-model"
VERSION = 1
MAX_BYTES = 8 << 30
MAX_JSON_BYTES = 256 << 20
MAX_FILES = 200_000
MAX_RATIO, FREE_BYTES = 200, 256 << 20
"""Noisy numbers hardly shrink: beyond some size, an archive that grows more than this when unpacked is a bomb."""
_DTYPES = frozenset("biuf")


def save_model(model: Model, path: str | Path) -> None:
    """Write a model atomically: the old file, if any, stays until the new one is complete."""
    path = Path(path)
    meta, parts = model.distribution.to_arrays()
    arrays: dict[str, npt.NDArray[Any]] = {f"distribution-{name}": array for name, array in parts.items()}
    measurements = []
    for index, item in enumerate(model.measurements):
        arrays[f"measurement-{index}"] = item.values
        measurements.append({"clique": list(item.clique), "noise": item.noise, "scale": item.scale})
    statistics = []
    for index, released in enumerate(model.statistics):
        arrays[f"statistic-{index}"] = released.values
        told: dict[str, Any] = {"name": released.name, "noise": released.noise, "scale": released.scale}
        if isinstance(released, SumsOfSigns):
            arrays[f"statistic-{index}-scales"] = released.scales
            told["signs"] = {
                "cliques": [list(item) for item in released.cliques],
                "planned": released.planned,
            }
        statistics.append(told)
    history = None
    if model.history is not None:
        history, parts = model.history.to_arrays()
        arrays.update({f"history-{name}": array for name, array in parts.items()})
    document = {
        "format": FORMAT,
        "version": VERSION,
        "schema": model.schema.to_dict(),
        "provenance": model.provenance.to_dict(),
        "measurements": measurements,
        "statistics": statistics,
        "distribution": {"kind": model.distribution.kind, "meta": meta},
        "history": history,
        "workload": None if model.workload is None else model.workload.to_plain(),
        "arrays": sorted(arrays),
    }
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent or ".", prefix=f".{path.name}.", suffix=".part")
        try:
            with (
                os.fdopen(handle, "wb") as stream,
                zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
            ):
                archive.writestr(_member("model.json"), json.dumps(document, indent=1, allow_nan=False))
                for name, array in arrays.items():
                    buffer = io.BytesIO()
                    np.save(buffer, np.asarray(array, order="C"), allow_pickle=False)  # keeps zero axes
                    archive.writestr(_member(f"arrays/{name}.npy"), buffer.getbuffer())
                archive.close()
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(
                temporary, 0o666 & ~_umask()
            )  # a temporary file is its owner's alone; a model is like any other
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(
            f"The model file {str(path)!r} cannot be written: {error.strerror or error}."
        ) from None


def _member(name: str) -> zipfile.ZipInfo:
    """Describe a file of the archive without its time: when a selection ended says how many attempts it made."""
    found = zipfile.ZipInfo(name)
    found.compress_type = zipfile.ZIP_DEFLATED
    found.external_attr = 0o600 << 16
    return found


def _umask() -> int:
    """Return the permissions that new files do not get."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def load_model(path: str | Path) -> Model:
    """Read a model file, refusing anything that is not one."""
    from understudy.mechanisms.model import Model, Provenance

    path = Path(path)
    document, arrays = _read_archive(path)
    try:
        schema = Schema.from_dict(document["schema"])
        if schema.events_of is not None and schema.events_of.entity is None:
            raise ModelFileError(f"{path.name} speaks of event records of a table that has no entities.")
        provenance = Provenance.from_dict(document["provenance"])
        measurements = []
        for index, item in enumerate(document["measurements"]):
            clique = schema.domain.canonical(item["clique"])
            values = arrays[f"measurement-{index}"]
            if values.shape != schema.domain.shape(clique):
                raise ModelFileError(f"{path.name}: measurement {index} does not fit its columns.")
            measurements.append(Measurement(clique, values, item["noise"], float(item["scale"])))
        statistics = [
            _statistic(schema, item, arrays, f"statistic-{index}")
            for index, item in enumerate(document.get("statistics", []))
        ]
        listed = document["workload"]
        workload = None if listed is None else Workload.from_plain(schema.domain, listed)
        stored, kept = document.get("history"), _named(arrays, "history-")
        history = None if stored is None else History.from_arrays(schema.domain, measurements, stored, kept)
        described = document["distribution"]
        distribution = distribution_from_arrays(
            described["kind"], schema.domain, dict(described["meta"]), _named(arrays, "distribution-")
        )
    except ModelFileError:
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        UnderstudyError,
    ) as error:
        raise ModelFileError(f"{path.name} is not a usable model file: {_reason(error)}") from None
    return Model(
        schema=schema,
        distribution=distribution,
        measurements=tuple(measurements),
        provenance=provenance,
        workload=workload,
        history=history,
        statistics=tuple(statistics),
    )


def _statistic(
    schema: Schema, item: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], name: str
) -> Statistic:
    """Return a released statistic; only files of this version on know of sums of signs."""
    plain = str(item["name"]), arrays[name], item["noise"], float(item["scale"])
    signs = item.get("signs")
    if signs is None:
        return Statistic(*plain)
    cliques = tuple(schema.domain.canonical(clique) for clique in signs["cliques"])
    if any(size != 2 for clique in cliques for size in schema.domain.shape(clique)):
        raise ModelFileError("The model file has sums of signs of columns that do not have two values.")
    return SumsOfSigns(
        *plain, cliques=cliques, scales=arrays[f"{name}-scales"], planned=bool(signs["planned"])
    )


def _named(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of one part of the model, under their own names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _reason(error: Exception) -> str:
    """Describe a malformed part; a model file holds nothing private, so its content may be quoted."""
    return f"{type(error).__name__}: {error}"


def _read_archive(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Open the zip with every limit checked before anything is unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            unpacked = sum(info.file_size for info in infos)
            bomb = unpacked > FREE_BYTES and unpacked > MAX_RATIO * path.stat().st_size
            if len(infos) > MAX_FILES or unpacked > MAX_BYTES or bomb:
                raise ModelFileError(f"{path.name} unpacks to more than a model file may hold.")
            if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in infos):
                raise ModelFileError(f"{path.name} is packed in a way that model files are not.")
            names = {info.filename for info in infos}
            if "model.json" not in names or len(names) != len(infos):
                raise ModelFileError(f"{path.name} is not a model file of Understudy.")
            if archive.getinfo("model.json").file_size > MAX_JSON_BYTES:
                raise ModelFileError(f"{path.name}: its description is too large.")
            document = json.loads(archive.read("model.json"))
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise ModelFileError(f"{path.name} is not a model file of Understudy.")
            if document.get("version") != VERSION:
                raise ModelFileError(
                    f"{path.name} has format version {document.get('version')!r}; this program reads {VERSION}."
                )
            listed = document.get("arrays")
            if not isinstance(listed, list) or names != {"model.json"} | {
                f"arrays/{name}.npy" for name in listed
            }:
                raise ModelFileError(f"{path.name}: the arrays it lists are not the ones it holds.")
            return document, {name: _read_array(archive, f"arrays/{name}.npy") for name in listed}
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file {str(path)!r}.") from None
    except OSError as error:
        raise ModelFileError(
            f"The model file {str(path)!r} cannot be read: {error.strerror or error}."
        ) from None
    except UnderstudyError:
        raise
    except (zipfile.BadZipFile, json.JSONDecodeError, UnicodeDecodeError, EOFError, RecursionError) as error:
        raise ModelFileError(
            f"{path.name} is not a model file of Understudy ({type(error).__name__})."
        ) from None
    except Exception as error:  # decompression and array headers of strangers end in errors of many kinds
        raise ModelFileError(f"{path.name} is damaged ({type(error).__name__}).") from None


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Read one array of plain numbers."""
    declared = archive.getinfo(name).file_size
    with archive.open(name) as stream:
        version = np.lib.format.read_magic(stream)
        header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = header(stream)
    if dtype.kind not in _DTYPES:
        raise ModelFileError(f"The array {name} holds something other than numbers.")
    if int(np.prod([int(size) for size in shape], dtype=object)) * dtype.itemsize > declared:
        raise ModelFileError(f"The array {name} is shorter than it says.")
    with archive.open(name) as stream:
        array: npt.NDArray[Any] = np.load(io.BytesIO(stream.read()), allow_pickle=False)
    return array
