"""The options of `--arch selfcp`."""

import math
from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from pet_fairseq.errors import UserError, check_at_least, check_positive
from pet_fairseq.nn.low_rank import ALPHA_HELP, check_alpha
from pet_fairseq.selfcp.connector import CONNECTORS
from pet_fairseq.selfcp.segments import STRATEGIES, check_strategy

LORA_ON = ("compressor", "reader")


@dataclass
class SelfCpConfig(FairseqDataclass):
    backbone_path: str = field(
        default="", metadata={"help": "checkpoint of the transformer_lm, kept frozen (required)"}
    )
    window: int = field(
        default=512, metadata={"help": "L: prompt tokens up to which nothing is compressed"}
    )
    segment_tokens: int = field(
        default=0,
        metadata={
            "help": "the most tokens of a segment, which becomes memory by itself; 0: as many as "
            "the window"
        },
    )
    memory_ratio: float = field(
        default=12, metadata={"help": "prompt tokens for one memory token, 1 or more"}
    )
    prompt_strategy: ChoiceEnum(STRATEGIES) = field(
        default="auto",
        metadata={
            "help": "what becomes of a longer prompt: former or latter, that half of it is "
            "compressed (beyond two windows, all but a window); auto, in training either, else the "
            "former; concat, all but a window is compressed; recursive, the same, and each segment "
            "reads the memory of those before; truncate or truncate_latter, the former or the "
            "latter part is cut off; perplexity, the tokens that the backbone expects most are "
            "dropped until a window is left; full, all of it is read; ..._equal, as many tokens "
            "are kept as `former` reads, memory tokens included"
        },
    )
    connector: ChoiceEnum(CONNECTORS) = field(
        default="linear",
        metadata={
            "help": "the map from the backbone's states to memory tokens: linear; linear_norm, "
            "with a layer norm after it; none, the states are the memory tokens (a baseline)"
        },
    )
    memory_tags: int = field(
        default=1,
        metadata={
            "help": "how many memory tags there are: 1, the same for all memory tokens; N, the "
            "first tokens of a memory have the first tags, and a segment becomes N tokens at most "
            "(a baseline)"
        },
    )
    standardise_on: int = field(
        default=0,
        metadata={
            "help": "how many training prompts to read before a training, so that the connector "
            "starts with the mean of the states at the memory tags taken off and their deviations "
            "divided by; 0: it starts as torch starts a linear map"
        },
    )
    max_compressor_tokens: int = field(
        default=16384,
        metadata={"help": "the most tokens in a batch of the compressor, padding included"},
    )
    bank: str = field(
        default="",
        metadata={"help": "folder made by pet-fairseq bank: read demonstrations after the query"},
    )
    shots: int = field(
        default=4, metadata={"help": "demonstrations for each prompt, if there is a bank"}
    )
    lora_rank: int = field(
        default=0,
        metadata={
            "help": "rank of trained updates to the backbone's maps of queries and values (LoRA, a "
            "baseline); 0: none, the backbone stays frozen"
        },
    )
    lora_alpha: float = field(default=16, metadata=ALPHA_HELP)
    lora_on: ChoiceEnum(LORA_ON) = field(
        default="compressor",
        metadata={
            "help": "when the backbone has these updates: while it makes memory tokens "
            "(compressor), or while it reads what these stand in and responds (reader)"
        },
    )


def check_options(cfg: SelfCpConfig) -> None:
    """Raise UserError for values that cannot make a model, before the backbone is loaded."""
    check_strategy(cfg.prompt_strategy)
    if cfg.connector not in CONNECTORS:
        raise UserError(f"--connector {cfg.connector}: give one of {', '.join(CONNECTORS)}")
    check_positive(
        memory_tags=cfg.memory_tags,
        window=cfg.window,
        max_compressor_tokens=cfg.max_compressor_tokens,
    )
    check_at_least(
        0,
        segment_tokens=cfg.segment_tokens,
        standardise_on=cfg.standardise_on,
        shots=cfg.shots,
        lora_rank=cfg.lora_rank,
    )
    if not 1 <= cfg.memory_ratio < math.inf:
        raise UserError(f"--memory-ratio {cfg.memory_ratio:g}: give 1 or more, but not inf")
    if cfg.standardise_on and cfg.connector == "none":
        raise UserError(
            f"--standardise-on {cfg.standardise_on}: there is no connector that could start so; "
            "leave it out, or --connector none"
        )
    check_alpha(cfg.lora_alpha)
    if cfg.lora_on not in LORA_ON:
        raise UserError(f"--lora-on {cfg.lora_on}: give one of {', '.join(LORA_ON)}")
