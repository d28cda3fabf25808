"""Task `selfcp`: a response to a query about a prompt."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import torch
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.file_io import PathManager
from fairseq.models import BaseFairseqModel
from fairseq.tasks import register_task
from omegaconf import II, open_dict
from torch import Tensor

from pet_fairseq.all_sentences import AllSentences
from pet_fairseq.checkpoints.dictionaries import load_dictionary
from pet_fairseq.checkpoints.loading import build_from_state
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.subsets import even_steps
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text
from pet_fairseq.selfcp.dataset import PromptDataset, Texts, prompts_of
from pet_fairseq.selfcp.draws import Range, draw, read_range
from pet_fairseq.selfcp.input_lines import complete_line, divide_line, find_query_ends, symbol_index
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.prompts import Record
from pet_fairseq.selfcp.reader import PromptReader
from pet_fairseq.selfcp.segments import SEGMENTS_FROM
from pet_fairseq.selfcp.template import read_template
from pet_fairseq.selfcp.training_checks import check_records_fit, check_tags_suffice
from pet_fairseq.selfcp.vocabulary import CUE, PROMPT_SYMBOL

READ_AT_ONCE = 8  # prompts, before a training


@dataclass
class SelfCpTaskConfig(FairseqDataclass):
    data: str = field(default="", metadata={"help": "folder made by pet-fairseq prompts"})
    memory_ratio_range: str = field(
        default="2,16",
        metadata={
            "help": "LOW,HIGH: in training each prompt gets a random ratio from this range, and "
            "auto compresses its former or its latter part at random; empty: all get "
            "--memory-ratio, and auto compresses the former part"
        },
    )
    segments_from: ChoiceEnum(SEGMENTS_FROM) = field(
        default="own",
        metadata={
            "help": "what is compressed as a prompt's segments: they themselves (own), or, as a "
            "control, as many tokens of another prompt of the same subset (other)"
        },
    )
    prompt_symbol: str = field(
        default=PROMPT_SYMBOL,
        metadata={"help": "symbol between query and prompt in lines for fairseq-interactive"},
    )
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")
    valid_subset: str = II("dataset.valid_subset")
    save_dir: str = II("checkpoint.save_dir")
    restore_file: str = II("checkpoint.restore_file")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")


def read_cue(path: Path, dictionary: Dictionary) -> Optional[Tensor]:
    """The tokens in a folder's file of the cue, None if it has no such file.

    Raises:
        UserError: it is empty, or has pieces that the dictionary lacks.
    """
    if not path.is_file():
        return None
    words = read_text(path, "the cue").split()
    unknown = [word for word in words if word not in dictionary]
    if unknown or not words:
        reason = f"the dictionary lacks {unknown[0]}" if unknown else "is empty"
        raise UserError(f"{path}: {reason}; make the folder again, or remove the file")
    return torch.tensor([dictionary.index(word) for word in words])


@register_task("selfcp", dataclass=SelfCpTaskConfig)
class SelfCpTask(AllSentences):
    """Responses to a query about a prompt, all in one dictionary."""

    generates_text = True  # so `pet_fairseq.from_pretrained` takes its models

    def __init__(self, cfg: SelfCpTaskConfig, dictionary: Dictionary):
        super().__init__(cfg)
        self.dictionary = dictionary
        self.ratio_range = read_range(cfg.memory_ratio_range)
        self.cue = read_cue(Path(cfg.data, CUE), dictionary)
        self.template = read_template(Path(cfg.data))
        self.template_tokens: list[int] = []  # of the text in front of a query, once encoded
        self.epoch = 1

    @classmethod
    def setup_task(cls, cfg: SelfCpTaskConfig, **_) -> "SelfCpTask":
        path = Path(cfg.data, "dict.txt")
        if not path.is_file():
            raise UserError(f"{path}: no such file; give a folder made by pet-fairseq prompts")
        return cls(cfg, load_dictionary(path, "data"))

    def load_dataset(self, split: str, task_cfg: Optional[FairseqDataclass] = None, **_) -> None:
        """Load a subset.

        Args:
            task_cfg: the options of the task that a model was trained in, if one is used.
        Raises:
            FileNotFoundError: as fairseq's tasks do.
        """
        paths = {part: os.path.join(self.cfg.data, f"{split}.{part}") for part in Record._fields}
        parts = {
            part: data_utils.load_indexed_dataset(path, self.dictionary, "mmap")
            for part, path in paths.items()
        }
        if parts["query"] is None or parts["prompt"] is None:
            raise FileNotFoundError(f"Dataset not found: {split} ({self.cfg.data})")
        # checkpoints that are older than this option do not have it
        segments_from = getattr(task_cfg or self.cfg, "segments_from", "own")
        self.datasets[split] = PromptDataset(
            **parts,
            dictionary=self.dictionary,
            seed=self.cfg.seed,
            of_others=segments_from == "other",
            cue=self.cue,
        )

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> BaseFairseqModel:
        """Build a model; one that nothing is loaded into starts as --standardise-on says.

        Raises:
            UserError: what the model raises, or too few --memory-tags for a training.
        """
        model = super().build_model(cfg, from_checkpoint)
        if not from_checkpoint:
            check_tags_suffice(cfg, self.ratio_range)
        number = getattr(cfg, "standardise_on", 0)  # checkpoints of before do not have it
        if number and not from_checkpoint and not self._is_loaded():
            self.load_dataset("train")
            model.encoder.standardise(self._first_batches(number))
        return model

    def _is_loaded(self) -> bool:
        """Whether fairseq will load a checkpoint into the model that it has this task build."""
        if self.cfg.finetune_from_model:
            return True
        default = CheckpointConfig.restore_file  # which alone is looked for in --save-dir
        name = self.cfg.restore_file
        path = os.path.join(self.cfg.save_dir, name) if name == default else name
        return PathManager.exists(path)

    def _first_batches(self, number: int) -> Iterator[dict]:
        """Prompts from all over the training set, drawn for as in an epoch before the first one."""
        dataset = self.dataset("train")
        indices = even_steps(len(dataset), number)
        for i in range(0, len(indices), READ_AT_ONCE):
            sample = dataset.collater([dataset[j] for j in indices[i : i + READ_AT_ONCE]])
            yield {**prompts_of(sample), **self._draws(sample, epoch=0)}

    def _draws(self, sample: dict, epoch: int) -> dict:
        if self.ratio_range is None:
            return {}
        return draw(sample["id"].tolist(), *self.ratio_range, self.cfg.seed, epoch)._asdict()

    def begin_epoch(self, epoch: int, model: BaseFairseqModel) -> None:
        """Remember the epoch, for which training draws; before the first, check what will be read.

        Raises:
            UserError: the training set or a validation set has a record that is too long for the
                model.
        """
        super().begin_epoch(epoch, model)
        self.epoch = epoch
        if epoch > 1:
            return
        reader = model.encoder
        self._check_records_fit("--train-subset", self.cfg.train_subset, reader, self.ratio_range)
        for split in self.cfg.valid_subset.split(","):
            self._check_records_fit("--valid-subset", split, reader, None)

    def _check_records_fit(
        self, option: str, split: str, reader: PromptReader, drawn: Optional[Range]
    ) -> None:
        if split in self.datasets:  # else not loaded, as with --disable-validation
            check_records_fit(self.dataset(split), option, split, reader, drawn)

    def train_step(self, sample: dict, *others, **options):
        """Draw for each prompt, in this process: copies in workers do not see that epochs begin."""
        draws = self._draws(sample, self.epoch)
        sample = {**sample, "net_input": {**sample["net_input"], **draws}}
        return super().train_step(sample, *others, **options)

    def complete_line(self, line: str) -> str:
        """A line QUERY <prompt> PROMPT, or only a prompt, with the template's text in front.

        Raises:
            UserError: that text has the symbol.
        """
        return complete_line(line, self.template, self.cfg.prompt_symbol)

    def encode_template(self, encode_fn: Callable[[str], str]) -> None:
        """Note the tokens of the text in front of each query."""
        before = encode_fn(self.template.before)
        tokens = self.dictionary.encode_line(before, add_if_not_exist=False, append_eos=False)
        self.template_tokens = tokens.tolist()

    def get_interactive_tokens_and_lengths(
        self, lines: list[str], encode_fn: Callable[[str], str]
    ) -> tuple[list[Tensor], list[int]]:
        """As fairseq's, of completed lines: a query is tokenized with the text in front of it."""
        self.encode_template(encode_fn)
        completed = list(map(self.complete_line, lines))
        return super().get_interactive_tokens_and_lengths(completed, encode_fn)

    def build_dataset_for_inference(
        self, src_tokens: list[Tensor], src_lengths: list[int], **_
    ) -> PromptDataset:
        """A data set of completed lines: QUERY <prompt> PROMPT, or only a prompt.

        Raises:
            UserError: the dictionary lacks --prompt-symbol.
        """
        symbol = symbol_index(self.cfg.prompt_symbol, self.dictionary)
        pairs = [
            divide_line(tokens, symbol, self.dictionary, self.template_tokens)
            for tokens in src_tokens
        ]
        queries, prompts = (Texts(list(side)) for side in zip(*pairs))
        return PromptDataset(queries, prompts, None, self.dictionary, cue=self.cue)

    def inference_step(self, generator, models, sample: dict, *others, **options):
        """As fairseq's; fairseq-interactive makes its samples of tokens alone, without the cue.

        Raises:
            UserError: they do not tell where a query ends.
        """
        net_input = dict(sample["net_input"])
        tokens = net_input["src_tokens"]
        if "query_lengths" not in net_input:
            ends = find_query_ends(tokens, self.dictionary.bos(), self.template_tokens)
            net_input["query_lengths"] = ends
        if self.cue is not None and "cue" not in net_input:
            net_input["cue"] = self.cue.to(tokens.device)
        sample = {**sample, "net_input": net_input}
        return super().inference_step(generator, models, sample, *others, **options)

    def max_positions(self) -> tuple[int, int]:
        return sys.maxsize, sys.maxsize

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        return self.dictionary


def load_selfcp(
    path: str, data: str, segments_from: Optional[str] = None, **overrides
) -> tuple[SelfCpModel, SelfCpTask]:
    """Load a model in eval mode and its task, with `data` in place of the checkpoint's folder.

    Args:
        segments_from: one of SEGMENTS_FROM, in place of the checkpoint's.
        overrides: options of the model in place of the stored ones, such as prompt_strategy.
    Raises:
        UserError: another kind of checkpoint, wrong options, or no such data.
    """
    state = load_checkpoint(path, "CHECKPOINT")
    if getattr(state["cfg"].model, "_name", "") != "selfcp":
        raise UserError(f"CHECKPOINT {path}: give a file of --arch selfcp")
    if segments_from is not None:
        with open_dict(state["cfg"].task) as cfg:
            cfg.segments_from = segments_from
    return build_from_state(state, [path], "CHECKPOINT", data, **overrides)
