"""Registers everything with fairseq; importing the module does it.

Each folder's `registered.py` imports what it registers, so a new method needs no entry here. The
environment is checked before anything is imported that may not work in it.
"""

from importlib import import_module
from pathlib import Path

from pet_fairseq import environment, errors

errors.install_excepthook()
environment.check()
import_module("pet_fairseq.numpy_compatibility").apply()
for file in sorted(Path(__file__).parent.glob("*/registered.py")):
    import_module(f"pet_fairseq.{file.parent.name}.registered")
