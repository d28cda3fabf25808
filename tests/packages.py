"""Packages that only some tests need."""

import pytest

ONNX = ("onnx", "onnxruntime", "onnxscript")


def need(*packages: str) -> None:
    """Skip a test, or a module of them, where one of these is not installed."""
    for package in packages:
        pytest.importorskip(package)
