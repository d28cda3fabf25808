"""Variator's commands of `pet-fairseq`: parse, call, print."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pet_fairseq.cli_command import (
    Command,
    Group,
    OneLineParser,
    add_backbone_run_option,
    add_checkpoint,
    add_sample_options,
)
from pet_fairseq.variator.sites import COMPRESSIONS, DECOMPRESSIONS, SITES


def _add_plugin_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--compression-ratio",
        type=int,
        default=4,
        metavar="K",
        help="how many positions become one (default: %(default)s)",
    )
    parser.add_argument(
        "--bottleneck-dim",
        type=int,
        default=64,
        metavar="N",
        help="the width of the adapters (default: %(default)s)",
    )
    parser.add_argument(
        "--compression-site",
        choices=SITES,
        default="ffn",
        help="what works on compressed vectors: the feed-forward network (ffn), the whole "
        "attention, or its keys and values only (attention-kv) (default: %(default)s)",
    )


def _add_plugin_file(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the plugin file to write"
    )


def _flops_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the model to compress")
    _add_plugin_options(parser)
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[32, 128, 512],
        metavar="N",
        help="the lengths of sentences to count for, in tokens, with </s> and language tokens "
        "(default: %(default)s)",
    )


def _flops(args: Namespace) -> None:
    from pet_fairseq.variator.flops_table import flops_report

    options = (args.compression_ratio, args.bottleneck_dim, args.compression_site, args.lengths)
    print(flops_report(args.checkpoint, *options))


def _new_plugins_arguments(parser: OneLineParser) -> None:
    add_checkpoint(parser, "the model that the plugins are for", old="--backbone-path")
    _add_plugin_options(parser)
    parser.add_argument(
        "--compression",
        choices=COMPRESSIONS,
        default="weighted",
        help="how the vectors of a group become one (default: %(default)s)",
    )
    parser.add_argument(
        "--decompression",
        choices=DECOMPRESSIONS,
        default="adapter",
        help="how the result of a group becomes one for each of its positions (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--prompt-end",
        default="",
        metavar="WORD",
        help="the word that ends a prompt, if the model is a language model",
    )
    _add_plugin_file(parser)


def _new_plugins(args: Namespace) -> None:
    from pet_fairseq.variator.options import VariatorConfig
    from pet_fairseq.variator.plugin_files import new_plugins

    options = {k: v for k, v in vars(args).items() if k not in ("checkpoint", "out")}
    new_plugins(VariatorConfig(backbone_path=args.checkpoint, **options), args.out)
    print(f"wrote {args.out}")


def _move_plugins_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("plugins", metavar="PLUGINS", help="a plugin file of --arch variator")
    parser.add_argument(
        "--backbone-path",
        required=True,
        metavar="FILE",
        help="the checkpoint of the model that the plugins are to work in",
    )
    _add_plugin_file(parser)


def _move_plugins(args: Namespace) -> None:
    from pet_fairseq.variator.plugin_files import move_plugins

    move_plugins(args.plugins, args.backbone_path, args.out)
    print(f"wrote {args.out}; train it further with --finetune-from-model {args.out}")


def _plugins_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        type=Path,
        metavar="RUNS",
        help="a folder that holds one folder for each run, with checkpoint_best.pt and result.json",
    )
    add_backbone_run_option(parser)
    parser.add_argument(
        "--length",
        type=int,
        default=128,
        metavar="N",
        help="the length of a sentence for which the cost is counted, in tokens, with </s> and "
        "language tokens (default: %(default)s)",
    )


def _plugins(args: Namespace) -> None:
    from pet_fairseq.variator.comparison import write_table

    print(write_table(args.runs, args.backbone, args.length), end="")


def _neurons_arguments(parser: OneLineParser) -> None:
    add_sample_options(
        parser,
        "a plugin file, or several for the same backbone as a.pt:b.pt",
        subset="valid",
        sentences=200,
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="also write neurons.md, neurons.json and neurons.png into this folder",
    )


def _neurons(args: Namespace) -> None:
    from pet_fairseq.variator.neuron_report import report_neurons

    print(report_neurons(**vars(args)), end="")


COMMANDS = (
    Command(
        name="flops",
        group=Group.VARIATOR,
        help="count what plugins would cost and save in a model",
        add_arguments=_flops_arguments,
        run=_flops,
    ),
    Command(
        name="new-plugins",
        group=Group.VARIATOR,
        help="write untrained plugins for a model",
        description="Write untrained plugins. With --compression mean --decompression copy they "
        "have no parameters to train.",
        add_arguments=_new_plugins_arguments,
        run=_new_plugins,
    ),
    Command(
        name="move-plugins",
        group=Group.VARIATOR,
        help="move plugins from a pre-trained model to the same model after its fine-tuning",
        add_arguments=_move_plugins_arguments,
        run=_move_plugins,
    ),
    Command(
        name="plugins",
        group=Group.VARIATOR,
        help="compare plugins and other cheap models by cost, size and score",
        add_arguments=_plugins_arguments,
        run=_plugins,
    ),
    Command(
        name="neurons",
        group=Group.VARIATOR,
        help="count which neurons the plugins' compressed vectors activate",
        add_arguments=_neurons_arguments,
        run=_neurons,
    ),
)
