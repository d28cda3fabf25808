"""Every encoder-decoder of stock fairseq as a tiny model: its options, and checkpoints of it."""

import torch
from fairseq import options

from tests.translation import save_state

STACKS = ("encoder", "decoder")
SIZES = {"embed-dim": 16, "ffn-embed-dim": 24, "layers": 2, "attention-heads": 2}
SMALL = tuple(f"--{s}-{name}={size}" for s in STACKS for name, size in SIZES.items())
TRANSFORMER = ("--arch", "transformer", *SMALL, "--dropout", "0.3")
CONVOLUTIONS = "[(16, 3)] * 2 + [(20, 2)]"
CONVOLUTIONAL = (
    *("--encoder-embed-dim", "12", "--decoder-embed-dim", "12", "--decoder-out-embed-dim", "12"),
    *("--encoder-layers", CONVOLUTIONS, "--decoder-layers", CONVOLUTIONS, "--dropout", "0.3"),
)
LSTM = (
    *("--arch", "lstm", "--encoder-embed-dim", "12", "--decoder-embed-dim", "12"),
    *("--encoder-hidden-size", "20", "--decoder-hidden-size", "20", "--dropout", "0.3"),
)
LIGHTCONV = ("--arch", "lightconv", *SMALL, "--dropout", "0.3")
# its sizes are those of a RoBERTa, and no options of fairseq-train
ROBERTA_SIZES = {
    **{f"encoder_{name.replace('-', '_')}": size for name, size in SIZES.items()},
    **{"max_positions": 40, "dropout": 0.3},
}
KERNELS = ("--encoder-kernel-size-list", "[3,3]", "--decoder-kernel-size-list", "[3,3]")
LIGHTWEIGHT = ("--encoder-conv-type", "lightweight", "--decoder-conv-type", "lightweight")
ADAPTIVE = (
    *("--adaptive-softmax-cutoff", "6,9", "--criterion", "adaptive_loss"),
    *("--ddp-backend", "legacy_ddp"),
)

# options of fairseq-train by a name for the kind
KINDS = {
    "fconv": ("--arch", "fconv", *CONVOLUTIONAL),
    "fconv, tied": ("--arch", "fconv", *CONVOLUTIONAL, "--share-input-output-embed"),
    "fconv_self_att": ("--arch", "fconv_self_att", *CONVOLUTIONAL),
    "lstm": (*LSTM, "--decoder-out-embed-dim", "16"),
    "lstm, deep": (
        *(*LSTM, "--decoder-out-embed-dim", "12", "--share-decoder-input-output-embed"),
        *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-bidirectional"),
    ),
    "lstm, adaptive softmax": (*LSTM, "--decoder-out-embed-dim", "20", *ADAPTIVE),
    "lightconv": (*LIGHTCONV, *KERNELS, *LIGHTWEIGHT),
    "dynamicconv": (*LIGHTCONV, *KERNELS),
    "transformer_align": (
        *("--arch", "transformer_align", *SMALL, "--dropout", "0.3"),
        *("--alignment-layer", "1", "--alignment-heads", "2"),
    ),
    "full context": (
        *("--arch", "transformer_align", *SMALL, "--dropout", "0.3"),
        *("--alignment-layer", "1", "--full-context-alignment"),
    ),
    "adaptive softmax": (*TRANSFORMER, *ADAPTIVE),
    "layerdrop": (*TRANSFORMER, "--encoder-layerdrop", "0.5", "--decoder-layerdrop", "0.5"),
    "learned positions": (*TRANSFORMER, "--encoder-learned-pos", "--decoder-learned-pos"),
    "norms on embeddings": (*TRANSFORMER, "--layernorm-embedding"),
    "no positions": (*TRANSFORMER, "--no-token-positional-embeddings"),
    "quant noise": (*TRANSFORMER, "--quant-noise-pq", "0.5", "--quant-noise-pq-block-size", "4"),
    "cross-self-attention": (*TRANSFORMER, "--cross-self-attention"),
    "no cross-attention": (*TRANSFORMER, "--no-cross-attention"),
    "projected output": (*TRANSFORMER, "--decoder-output-dim", "8"),
    "bart": ("--arch", "bart_base", *SMALL, "--dropout", "0.3"),
    "roberta_enc_dec": ("--arch", "roberta_enc_dec", "--share-all-embeddings"),
    "roberta_enc_dec, untied": ("--arch", "roberta_enc_dec"),
}


def save_kind(path, task, words):
    """A checkpoint, as fairseq-train writes it, of a model with these options; returns its path.

    No bias in it is 0 and no layer norm the identity.
    """
    args = options.parse_args_and_arch(
        options.get_training_parser(), [task.cfg.data, "--cpu", *words]
    )
    if args.arch == "roberta_enc_dec":
        vars(args).update(ROBERTA_SIZES)
    args.max_source_positions = args.max_target_positions = 40
    args._name = args.arch
    model = task.build_model(args)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    save_state(path, model, args, {**vars(task.cfg), "_name": "translation"})
    return str(path)
