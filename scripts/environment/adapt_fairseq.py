"""Lets Python 3.14 import the installed fairseq; older ones need no change and get none.

fairseq tells an optional type by how it is printed, `typing.Optional[int]`, which Python 3.14
prints as `int | None`. It does so while it is imported, so no hook and no plugin comes before it:
the installed file, `fairseq/dataclass/utils.py`, is changed in one place.
"""

import importlib.util
import os
import sys
from pathlib import Path

FILE = Path("fairseq/dataclass/utils.py")
BEFORE = 'typestring.startswith("typing.Optional")'
AFTER = 'typestring.startswith("typing.Optional") or typestring.endswith(" | None")'


def adapt(file: Path) -> bool:
    """Make the change in a file; return whether there was something to change.

    Raises:
        ValueError: the file is not that of a fairseq which is known here.
    """
    text = file.read_text(encoding="utf-8")
    if AFTER in text:
        return False
    if text.count(BEFORE) != 1:
        raise ValueError(f"{file}: not as in fairseq-fixed 0.12.3.1")
    whole = file.with_name(f"{file.name}.adapted")
    whole.write_text(text.replace(BEFORE, AFTER), encoding="utf-8")
    os.replace(whole, file)
    return True


def main() -> None:
    if sys.version_info < (3, 14):
        return
    found = importlib.util.find_spec("fairseq")
    if found is None:
        sys.exit("adapt_fairseq.py: fairseq is not installed")
    file = Path(found.origin).parents[1] / FILE
    try:
        changed = adapt(file)
    except ValueError as error:
        sys.exit(f"adapt_fairseq.py: {error}")
    print(f"{file}: {'adapted to Python 3.14' if changed else 'nothing to change'}")


if __name__ == "__main__":
    main()
