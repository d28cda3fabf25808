"""Imported by the others: tiny data and models, made when they are first asked for."""

import json
import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from commands import USER_DIR, must

TRAIN = (
    *("--optimizer", "adam", "--lr", "1e-3", "--max-tokens", "1000", "--cpu", "--seed", "1"),
    *("--required-batch-size-multiple", "1", "--num-workers", "0", "--log-format", "simple"),
    *("--log-interval", "1", "--no-epoch-checkpoints", "--user-dir", USER_DIR),
)
PLAIN = ("--arch", "transformer_tiny", "--criterion", "label_smoothed_cross_entropy")
FEW = ("--max-update", "2")
# the words of a command, in which {w.NAME} is a path of the workspace and {out} a folder
Command = Sequence[str]
PROMPTS = (
    *("pet-fairseq", "prompts", "--train", "{w.records[0]}", "--valid", "{w.records[1]}"),
    *("--vocab-size", "120", "--lm-tokens", "40", "--out", "{out}/prompts"),
)
GENERATE = ("--user-dir", USER_DIR, "--cpu", "--required-batch-size-multiple", "1")


class Workspace:
    """A folder of inputs for commands."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.log = folder / "command.log"

    def fill(self, command: Command, out: Path) -> list[str]:
        """The words of a command with the paths of what it needs, which is made now."""
        return [word.format(w=self, out=out) for word in command]

    def train(self, data: Path, name: str, *options: object) -> Path:
        """Train for two updates; returns the best checkpoint."""
        folder = self.folder / name
        must(("fairseq-train", data, "--save-dir", folder, *TRAIN, *FEW, *options), self.log)
        return folder / "checkpoint_best.pt"

    # --- translation ------------------------------------------------------------------------------

    @cached_property
    def raw(self) -> Path:
        sizes = ("--train-size", "200", "--valid-size", "20", "--test-size", "20")
        must(
            ("pet-fairseq", "demo-data", self.folder / "text", *sizes, "--pieces", "300"), self.log
        )
        return self.folder / "text" / "pieces"

    @cached_property
    def data(self) -> Path:
        prefixes = [f"--{split}pref={self.raw / split}" for split in ("train", "valid", "test")]
        languages = ("--source-lang", "fi", "--target-lang", "en")
        out = self.folder / "data"
        must(("fairseq-preprocess", *languages, *prefixes, "--destdir", out), self.log)
        return out

    @cached_property
    def teacher(self) -> Path:
        return self.train(self.data, "teacher", *PLAIN)

    @cached_property
    def student(self) -> Path:
        options = ("--arch", "pet_transformer_tiny", *PLAIN[2:])
        return self.train(self.data, "student", *options)

    @cached_property
    def plugins(self) -> Path:
        out = self.folder / "plugins.pt"
        command = ("pet-fairseq", "new-plugins", self.teacher)
        must((*command, "--compression-ratio", "2", "--out", out), self.log)
        return out

    @cached_property
    def generated(self) -> Path:
        """What fairseq-generate printed for the test set."""
        return self._generate("test")

    @cached_property
    def generated_training(self) -> Path:
        return self._generate("train")

    def _generate(self, subset: str) -> Path:
        options = ("--path", self.teacher, "--gen-subset", subset, "--beam", "1")
        output = must(("fairseq-generate", self.data, *GENERATE, *options), self.log)
        path = self.folder / f"generated.{subset}.txt"
        path.write_text(output, encoding="utf-8")
        return path

    # --- prompts ----------------------------------------------------------------------------------

    @cached_property
    def records(self) -> list[Path]:
        """JSON lines for training and validation."""
        draw, paths = random.Random(1), []
        words = ["".join(draw.choices(("ba", "ko", "ri", "sen", "tul"), k=2)) for _ in range(20)]
        for split, number in (("train", 60), ("valid", 10)):
            lines = (
                {"query": "what", "prompt": " ".join(draw.choices(words, k=20)), "response": "ba"}
                for _ in range(number)
            )
            paths.append(self.folder / f"{split}.jsonl")
            paths[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
        return paths

    @cached_property
    def prompts(self) -> Path:
        must(self.fill(PROMPTS, self.folder), self.log)
        return self.folder / "prompts"

    @cached_property
    def language_model(self) -> Path:
        sizes = [
            f"--decoder-{name}"
            for name in ("layers=2", "embed-dim=32", "ffn-embed-dim=64", "attention-heads=2")
        ]
        task = ("--task", "language_modeling", "--sample-break-mode", "eos")
        limits = ("--tokens-per-sample", "64", "--max-target-positions", "64")
        options = ("--arch", "transformer_lm", "--criterion", "cross_entropy", *sizes)
        return self.train(self.prompts / "lm", "language_model", *task, *limits, *options)

    @cached_property
    def selfcp(self) -> Path:
        model = ("--arch", "selfcp", "--backbone-path", self.language_model, "--window", "8")
        options = ("--task", "selfcp", "--criterion", "selfcp_lm", "--memory-ratio", "4")
        return self.train(self.prompts, "selfcp", *model, *options)

    # --- another library's model ------------------------------------------------------------------

    @cached_property
    def bert(self) -> Path:
        """The files of a BERT of one layer."""
        from tokenizers import Tokenizer, models
        from transformers import BertConfig, BertModel

        folder = self.folder / "bert"
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
        sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        sizes |= dict(intermediate_size=16, max_position_embeddings=16, vocab_size=len(words))
        BertModel(BertConfig(**sizes), add_pooling_layer=False).save_pretrained(folder)
        vocabulary = {word: i for i, word in enumerate(words)}
        tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        tokenizer.save(str(folder / "tokenizer.json"))
        return folder
