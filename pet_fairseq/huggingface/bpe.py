"""Other libraries' tokenizers as `--bpe` of fairseq's commands.

`tokenizer_json` is any tokenizer of the library `tokenizers`, `marian` is that of OPUS-MT.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from fairseq.data.encoders import register_bpe
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from fairseq.dataclass import FairseqDataclass

from pet_fairseq.byte_pieces import join_bytes
from pet_fairseq.huggingface.tokenizer_file import escape_spaces, load_segmenter


@dataclass
class TokenizerJsonConfig(FairseqDataclass):
    tokenizer_file: str = field(
        default="???",
        metadata={
            "help": "a tokenizer.json, such as the one that pet-fairseq import-hf writes; or "
            "BERT's vocab.txt, or GPT-2's vocab.json with merges.txt beside it"
        },
    )
    tokenizer_newline: str = field(
        default="",
        metadata={
            "help": "what stands for a line break within a line of text, both in input and in "
            "output, such as '\\n' (a backslash and an n) (default: nothing does)"
        },
    )


@register_bpe("tokenizer_json", dataclass=TokenizerJsonConfig)
class TokenizerJson:
    """Turns text into the words of a dictionary that `pet-fairseq import-hf` wrote, and back."""

    def __init__(self, cfg):
        self.tokenizer = load_segmenter(Path(cfg.tokenizer_file))
        self.newline = cfg.tokenizer_newline
        vocabulary = self.tokenizer.get_vocab()
        self.words = {number: escape_spaces(piece) for piece, number in vocabulary.items()}
        self.numbers = {word: number for number, word in self.words.items()}

    def encode(self, text: str) -> str:
        """A text as words separated by spaces; the task adds those that begin and end a text."""
        if self.newline:
            text = text.replace(self.newline, "\n")
        numbers = self.tokenizer.encode(text, add_special_tokens=False).ids
        return " ".join(self.words[number] for number in numbers)

    def decode(self, words: str) -> str:
        """Words as text; those that the tokenizer does not know, such as `<unk>`, are left out."""
        numbers = [self.numbers[word] for word in words.split() if word in self.numbers]
        text = self.tokenizer.decode(numbers, skip_special_tokens=False)
        return text.replace("\n", self.newline) if self.newline else text


@register_bpe("marian", dataclass=SentencepieceConfig)
class MarianBPE(SentencepieceBPE):
    """SentencePiece's pieces, before which a language token such as `>>fra<<` is a word itself."""

    def encode(self, x: str) -> str:
        match = re.match(r">>\S+?<<", x)
        token = match[0] if match else ""
        words = f"{token} {super().encode(x[len(token) :])}"
        return words.strip()

    def decode(self, x: str) -> str:
        return super().decode(join_bytes(x))
