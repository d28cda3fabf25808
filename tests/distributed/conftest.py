"""The tiny data and teacher that tests of commands have."""

from tests.cli.conftest import data, raw, teacher  # noqa: F401
