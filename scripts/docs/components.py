"""The page about what this package registers with fairseq; imported by reference.py."""

import argparse
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

from docstrings import to_markdown
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from option_tables import action_rows, tables

from pet_fairseq.markdown import table

OURS = "pet_fairseq."
SIZES = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")


@dataclass(frozen=True)
class Kind:
    """A kind of component: the option that chooses one, and fairseq's registry of them."""

    title: str
    option: str
    registry: dict[str, type]


KINDS = (
    Kind("Models", "--arch", MODEL_REGISTRY),
    Kind("Criteria", "--criterion", CRITERION_REGISTRY),
    Kind("Tasks", "--task", TASK_REGISTRY),
    Kind("Optimizers", "--optimizer", OPTIMIZER_REGISTRY),
    Kind("Tokenizers", "--bpe", REGISTRIES["bpe"]["registry"]),
)


def components_page() -> str:
    """The page about all of them."""
    parts = [
        "# What fairseq gets: models, criteria, tasks\n",
        "With `--user-dir pet_fairseq`, or `--user-dir $(pet-fairseq user-dir)` from any folder, "
        "fairseq's commands know these. Options of a model go to `fairseq-train`; what extends a "
        "component of fairseq takes its options, too, which `fairseq-train --help` lists.\n",
    ]
    for kind in KINDS:
        parts.append(f"## {kind.title}: `{kind.option}`\n")
        for name, component in sorted(kind.registry.items()):
            if component.__module__.startswith(OURS):
                parts += [f"### `{kind.option} {name}`\n", section(name, component, kind)]
    parts += ["## Named architectures\n", architectures()]
    return "\n".join(parts)


def section(name: str, component: type, kind: Kind) -> str:
    """What one component is, and its options."""
    parser, inherited = parser_of(component), set()
    parent = fairseq_parent(component, kind)
    if parent is not None:
        inherited = set(parser_of(kind.registry[parent])._option_string_actions)
    own = [
        action
        for action in parser._actions
        if action.option_strings and not inherited & set(action.option_strings)
    ]
    parts = [to_markdown(component)]
    if own:
        parts.append(tables({"": action_rows(parser, own, defaults_of(name))}))
    if parent is not None:
        parts.append(
            f"{'It also takes' if own else 'It takes'} the options of fairseq's `{parent}`.\n"
        )
    return "\n".join(parts)


def parser_of(component: type) -> argparse.ArgumentParser:
    """A parser with the options of a component and nothing else, not even help."""
    parser = argparse.ArgumentParser(add_help=False)
    options = getattr(component, "__dataclass", None)
    if options is not None:
        gen_parser_from_dataclass(parser, options())
    elif hasattr(component, "add_args"):
        component.add_args(parser)
    return parser


def fairseq_parent(component: type, kind: Kind) -> Optional[str]:
    """The name of the component of fairseq that a class inherits from; None if there is none."""
    names = {other: name for name, other in kind.registry.items()}
    for parent in component.__mro__[1:]:
        if parent in names and not parent.__module__.startswith(OURS):
            return names[parent]
    return None


def defaults_of(name: str) -> dict[str, Any]:
    """The defaults that a model's own architecture sets, by the names that argparse has."""
    args = Namespace()
    if name in ARCH_CONFIG_REGISTRY:
        ARCH_CONFIG_REGISTRY[name](args)
    return vars(args)


def architectures() -> str:
    """A table of the named architectures and their sizes."""
    header = ["`--arch`", "model", "layers", "width", "feed-forward width", "heads"]
    return "Encoder and decoder, where they differ, as `encoder / decoder`.\n\n" + table(
        header, sorted(architecture_rows()), text=(0, 1)
    )


def architecture_rows() -> Iterator[list[str]]:
    models = {model: name for name, model in MODEL_REGISTRY.items()}
    for name, configure in ARCH_CONFIG_REGISTRY.items():
        if not configure.__module__.startswith(OURS):
            continue
        args = Namespace()
        configure(args)
        sizes = [stack_sizes(args, size) for size in SIZES]
        yield [f"`{name}`", f"`{models[ARCH_MODEL_REGISTRY[name]]}`", *sizes]


def stack_sizes(args: Namespace, size: str) -> str:
    """A size of encoder and decoder, once if it is the same or if there is one stack only."""
    values = [getattr(args, f"{stack}_{size}", None) for stack in ("encoder", "decoder")]
    given = [str(value) for value in values if value is not None]
    return given[0] if len(set(given)) == 1 else " / ".join(given)
