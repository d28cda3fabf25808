"""Variator's commands of `pet-fairseq`: parse, call, print."""

import logging
from pathlib import Path

from pet_fairseq.command_options import add_sample_options
from pet_fairseq.variator.choices import COMPRESSIONS, DECOMPRESSIONS, SITES


def add_commands(commands) -> None:
    """Add them to argparse's sub-parsers."""
    command = commands.add_parser(
        "flops", help="what Variator's plugins would cost and save for a model"
    )
    command.add_argument("checkpoint", metavar="CHECKPOINT", help="the model to compress")
    command.add_argument("--compression-ratio", type=int, default=4, help="default: %(default)s")
    command.add_argument("--bottleneck-dim", type=int, default=64, help="default: %(default)s")
    command.add_argument("--compression-site", choices=SITES, default="ffn")
    command.add_argument(
        "--lengths", type=int, nargs="+", default=[32, 128, 512], help="default: %(default)s"
    )
    command.set_defaults(run=_flops)

    command = commands.add_parser(
        "new-plugins", help="untrained plugins, such as --compression mean --decompression copy"
    )
    command.add_argument("--backbone-path", required=True, metavar="FILE", help="their model")
    command.add_argument("--compression-ratio", type=int, default=4, help="default: %(default)s")
    command.add_argument("--bottleneck-dim", type=int, default=64, help="default: %(default)s")
    command.add_argument("--compression-site", choices=SITES, default="ffn")
    command.add_argument("--compression", choices=COMPRESSIONS, default="weighted")
    command.add_argument("--decompression", choices=DECOMPRESSIONS, default="adapter")
    command.add_argument("--prompt-end", default="", help="for a decoder-only model")
    command.add_argument("--out", type=Path, required=True, help="plugin file to write")
    command.set_defaults(run=_new_plugins)

    command = commands.add_parser(
        "move-plugins",
        help="plugins of a pre-trained model as plugins of that model fine-tuned",
    )
    command.add_argument("plugins", metavar="PLUGINS", help="a file of --arch variator")
    command.add_argument(
        "--backbone-path", required=True, metavar="FILE", help="the model they are to work in"
    )
    command.add_argument("--out", type=Path, required=True, help="plugin file to write")
    command.set_defaults(run=_move_plugins)

    command = commands.add_parser(
        "plugins", help="compare plugins and other cheap models by cost, size and score"
    )
    command.add_argument(
        "runs", type=Path, metavar="RUNS", help="folder with one folder per run, see scripts"
    )
    command.add_argument(
        "--backbone", default="backbone", metavar="RUN", help="default: %(default)s"
    )
    command.add_argument(
        "--length", type=int, default=128, help="tokens of a sentence (default: %(default)s)"
    )
    command.set_defaults(run=_plugins)

    command = commands.add_parser(
        "neurons", help="which neurons the compressed vectors of Variator's plugins activate"
    )
    add_sample_options(command, "plugin files a.pt:b.pt", subset="valid", sentences=200)
    command.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for neurons.md, neurons.json and neurons.png"
    )
    command.set_defaults(run=_neurons)


def _flops(args, rest) -> int:
    from pet_fairseq.variator.flops import flops_report

    options = (args.compression_ratio, args.bottleneck_dim, args.compression_site, args.lengths)
    print(flops_report(args.checkpoint, *options))
    return 0


def _new_plugins(args, rest) -> int:
    from pet_fairseq.variator.options import VariatorConfig
    from pet_fairseq.variator.plugin_files import new_plugins

    names = ("command", "run", "out")
    new_plugins(VariatorConfig(**{k: v for k, v in vars(args).items() if k not in names}), args.out)
    print(f"wrote {args.out}")
    return 0


def _move_plugins(args, rest) -> int:
    from pet_fairseq.variator.plugin_files import move_plugins

    move_plugins(args.plugins, args.backbone_path, args.out)
    print(f"wrote {args.out}; train it further with --finetune-from-model {args.out}")
    return 0


def _plugins(args, rest) -> int:
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything
    from pet_fairseq.variator.comparison import write_table

    print(write_table(args.runs, args.backbone, args.length), end="")
    return 0


def _neurons(args, rest) -> int:
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything
    from pet_fairseq.variator.neuron_report import report_neurons

    options = {k: v for k, v in vars(args).items() if k not in ("command", "run")}
    print(report_neurons(**options), end="")
    return 0
