"""Hooks that are removed when a `with` block ends."""

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


@contextmanager
def given_arguments(module: nn.Module, **arguments) -> Iterator[None]:
    """Within the block, every run of a module gets these keyword arguments, whoever starts it."""

    def give(_module: nn.Module, inputs: tuple, named: dict) -> tuple[tuple, dict]:
        return inputs, {**named, **arguments}

    hook = module.register_forward_pre_hook(give, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
