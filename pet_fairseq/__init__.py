"""Small and fast sequence-to-sequence models with fairseq: `--user-dir pet_fairseq`.

fairseq imports this package to register its models, criteria and tasks. Where fairseq is not loaded
yet, as when `pet-fairseq --help` is printed, the import stays light and registers nothing: call
`pet_fairseq.register()` if you import this package before fairseq.
"""

import sys


def register() -> None:
    """Register the package's models, criteria and tasks with fairseq; a second call does nothing.

    Raises:
        UserError: torch or fairseq is missing or too old, or safe loading was switched off.
    """
    from pet_fairseq import registry  # noqa: F401  registers while it is imported


def __getattr__(name: str):
    if name != "from_pretrained":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    register()
    from pet_fairseq.predict.hub import from_pretrained

    return from_pretrained


if "fairseq" in sys.modules:
    register()
