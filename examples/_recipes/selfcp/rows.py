"""The rows of SelfCP's recipes.

A row of the table is a prompt strategy; a number at its end is another ratio, as in former4. In a
row that begins with `control_`, the memory is trained and used with segments of other prompts. In
`icae`, `autocompressor` and `lora` the language model has trained low-rank updates: in the first
two while it makes memory tokens, in the last while it reads a prompt that is cut off.
"""

import re
from typing import NamedTuple

from pet_fairseq.recipes.arguments import unknown_row
from pet_fairseq.selfcp.segments import STRATEGIES


class Row(NamedTuple):
    """A way to read prompts, and the memory that it uses.

    Attributes:
        memory: the folder of the trained memory, without the seed; rows may share it.
    """

    strategy: str
    memory: str = "memory"
    trained_with: str = "auto"  # --prompt-strategy
    segments_from: str = "own"  # --segments-from
    lora_on: str = ""  # --lora-on; empty: no --lora-rank
    tags_alone: bool = False  # each memory token has its own tag, and no connector stands behind


ROWS = {
    **{strategy: Row(strategy) for strategy in STRATEGIES if strategy != "auto"},
    "recursive": Row("recursive", "recursive_memory", "recursive"),
    "control_former": Row("former", "control_memory", segments_from="other"),
    "control_latter": Row("latter", "control_memory", segments_from="other"),
    "icae": Row("former", "icae_memory", "former", lora_on="compressor"),
    "autocompressor": Row(
        "recursive", "autocompressor_memory", "recursive", lora_on="compressor", tags_alone=True
    ),
    "lora": Row("truncate", "lora_model", "truncate", lora_on="reader"),
}
FULL = ("full",)  # for data sets without prompts longer than the model's positions
DEFAULT = (
    *("former", "latter", "concat", "truncate_equal", "truncate_latter_equal", "perplexity_equal"),
    *("control_former", "control_latter", "truncate", "truncate_latter", "perplexity"),
)
ROW = re.compile(r"([a-z_]+)([1-9]\d{0,8})?")


def parse_row(name: str, ratio: int) -> tuple[Row, int]:
    """The row of a name, and its ratio: the number at the name's end, or else `ratio`.

    Raises:
        UserError: no such row.
    """
    match = ROW.fullmatch(name)
    if match is None or match[1] not in ROWS:
        raise unknown_row(name, ROWS)
    return ROWS[match[1]], int(match[2] or ratio)
