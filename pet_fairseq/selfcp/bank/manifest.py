"""bank.json: what a bank of demonstrations holds; it is written after the data that it names."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, TypeVar, cast

from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_write

MANIFEST = "bank.json"
VERSION = 1
T = TypeVar("T")


@dataclass
class Source:
    """Data from which a bank is made; `cut`: how many records were too long for the backbone."""

    data: str
    subset: str
    sha256: str
    records: int
    cut: int


@dataclass
class Block:
    """Demonstrations that were written together, and the SHA-256 of what was written."""

    records: int
    rows: int  # of memory.f32: memory tokens; the name is part of the format
    first: str
    index: str


@dataclass
class Manifest:
    """What a bank holds; `width`: C of its memory tokens, `memory_ratio`: text tokens for one."""

    width: int
    memory_ratio: float
    made_with: dict[str, str]  # SHA-256 of what memory depends on: demonstrations.MADE_WITH
    sources: list[Source]
    blocks: list[Block]
    version: int = VERSION

    @property
    def records(self) -> int:
        return sum(block.records for block in self.blocks)

    @property
    def memory_tokens(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def unfinished(self) -> str:
        """What is missing and what to do, for a message; "" if nothing is missing."""
        wanted = sum(source.records for source in self.sources)
        if self.sources and wanted == self.records:
            return ""
        action = "add" if len(self.sources) > 1 else "build"
        return (
            f"unfinished, holds {self.records:,} of {wanted:,} demonstrations; give the same "
            f"command `pet-fairseq bank {action}` again"
        )

    def write(self, folder: Path) -> None:
        """Replace the folder's manifest by this one, which is on disk when this returns."""
        fields = asdict(self)
        text = json.dumps({**fields, "checksum": checksum(fields)}, indent=1)

        def write(path: Path) -> None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())

        atomic_write(folder / MANIFEST, write)


def checksum(fields: dict) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a bank.

    Raises:
        UserError: no bank, one of another version, or a damaged manifest.
    """
    path = folder / MANIFEST
    if not path.is_file():
        reason = f"not a bank, it has no {MANIFEST}" if folder.is_dir() else "no such folder"
        raise UserError(f"{folder}: {reason}; make one with `pet-fairseq bank build`")
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields.pop("checksum") != checksum(fields):
            raise ValueError
        version = fields["version"]
        if version == VERSION:
            return _from_fields(fields)
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: damaged; build the bank anew") from error
    raise UserError(f"{path}: version {version}, this program reads {VERSION}; build the bank anew")


def _from_fields(fields: dict) -> Manifest:
    """The manifest with these fields; raises ValueError or TypeError if they make none."""
    parts: dict[str, Any] = {
        "sources": [_checked(Source(**source)) for source in fields.pop("sources")],
        "blocks": [_checked(Block(**block)) for block in fields.pop("blocks")],
    }
    manifest = _checked(Manifest(**fields, **parts))
    if manifest.width < 1 or not 1 <= manifest.memory_ratio < float("inf"):
        raise ValueError
    return manifest


def _checked(part: T) -> T:
    """The part itself; ValueError or TypeError unless texts are texts and numbers are counts."""
    for field in dataclass_fields(cast(Any, part)):
        value = getattr(part, field.name)
        if field.type in (int, float):
            if isinstance(value, bool) or not isinstance(value, (int, field.type)) or value < 0:
                raise ValueError
        elif field.type is str and not isinstance(value, str):
            raise TypeError
    return part
