"""What the package needs of its environment: versions that work, and safe loading left on."""

import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from pet_fairseq.errors import UserError

FRESH = "install pet_fairseq in a fresh environment (`make env`; README.md)"
# a requirement of it would bring a torchaudio that need not fit torch
FAIRSEQ = "pip install --no-deps --no-build-isolation fairseq-fixed==0.12.3.1"

# torch's own switches for its safe loading, and ours, with which a user accepts that it is off
NEVER_SAFE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
ALWAYS_SAFE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
ALLOW_UNSAFE = "PET_FAIRSEQ_ALLOW_UNSAFE_LOADING"


class Need(NamedTuple):
    """The versions of a package that work, `first` or later, and how to get one."""

    package: str
    first: str
    reason: str
    install: str


NEEDS = (
    Need("torch", "2.6", "the safe loading of earlier ones can be made to run code", FRESH),
    Need("fairseq", "0.12.3", "fairseq-fixed 0.12.3.1, which is imported as fairseq too", FAIRSEQ),
)


def check() -> None:
    """Check that the installed packages can work and that checkpoints are loaded safely.

    Raises:
        UserError: a package is missing or too old, or safe loading was switched off.
    """
    check_loading(os.environ)
    for need in NEEDS:
        check_version(need)


def check_version(need: Need) -> None:
    """Import a package and compare its version.

    Raises:
        UserError: it is missing, cannot be imported, or has a version that does not work.
    """
    try:
        version = import_module(need.package).__version__
    except ModuleNotFoundError as error:
        way_out = need.install if error.name == need.package else FRESH
        raise UserError(f"{need.package} cannot be imported ({error}); {way_out}") from error
    except Exception as error:  # of any kind: fairseq 0.12.2 raises ValueError on Python 3.11
        reason = " ".join(str(error).split())
        raise UserError(f"{need.package} cannot be imported ({reason}); {FRESH}") from error
    if version_numbers(version) < version_numbers(need.first):
        raise UserError(
            f"{need.package} {version}: pet_fairseq needs {need.first} or later ({need.reason}); "
            f"{FRESH}"
        )


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparisons: (2, 13, 0) for `2.13.0+cpu`."""
    leading = re.sub(r"[^\d.].*", "", version)
    return tuple(int(number) for number in leading.split(".") if number)


def check_loading(variables: Mapping[str, str]) -> None:
    """Check that no environment variable makes torch load checkpoints unsafely for fairseq.

    Files that this package opens itself are loaded safely in any case.

    Args:
        variables: the environment.
    Raises:
        UserError: one does, and the user has not accepted that by ALLOW_UNSAFE; or two variables
            contradict each other.
    """
    if not is_on(variables, NEVER_SAFE):
        return
    if is_on(variables, ALWAYS_SAFE):
        raise UserError(
            f"{NEVER_SAFE} and {ALWAYS_SAFE} are both set, with which torch loads nothing; unset "
            "the first"
        )
    if not is_on(variables, ALLOW_UNSAFE):
        raise UserError(
            f"{NEVER_SAFE} is set, so code in a checkpoint would run while fairseq loads it; unset "
            f"it, or set {ALLOW_UNSAFE}=1 if you trust every checkpoint that you load"
        )


def is_on(variables: Mapping[str, str], name: str) -> bool:
    """Whether a variable has one of the values that torch takes for yes."""
    return variables.get(name, "").lower() in ("1", "y", "yes", "true")
