"""Schemas from the domain files of other tools: mbi, google/dpsynth, SDV."""

from understudy.schema.importers.importing import FORMATS, ImportFormat, import_schema

__all__ = ["FORMATS", "ImportFormat", "import_schema"]
