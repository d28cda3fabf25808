"""Registers everything with fairseq; importing the module does it.

Each folder says in its `registered.py` what fairseq registers of it, so a new method needs no entry
here.
"""

from importlib import import_module
from pathlib import Path

from pet_fairseq import errors
from pet_fairseq.checkpoints import safe_loading

safe_loading.allow_fairseq_types()
errors.install_excepthook()
for file in sorted(Path(__file__).parent.glob("*/registered.py")):
    import_module(f"pet_fairseq.{file.parent.name}.registered")
