"""Looking at what modules give while a model runs, with no trace afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def forward_hooks(*watched: tuple[nn.Module, Callable]) -> Iterator[None]:
    """Inside, each module calls its hook(module, inputs, output) whenever it has run."""
    hooks = [module.register_forward_hook(hook) for module, hook in watched]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
