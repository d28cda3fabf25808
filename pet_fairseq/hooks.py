"""Forward hooks that are removed when a `with` block ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def forward_hooks(*watched: tuple[nn.Module, Callable]) -> Iterator[None]:
    """Within the block, call hook(module, inputs, output) after every run of its module.

    Args:
        watched: pairs of a module and its hook.
    """
    hooks = [module.register_forward_hook(hook) for module, hook in watched]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
