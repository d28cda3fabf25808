"""Tiny trainings: each is options of fairseq-train and a few batches."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq import options, tasks, utils
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import DictConfig, OmegaConf

import pet_fairseq
from tests.selfcp.test_model import make_sample

pet_fairseq.register()

BATCHES = 5  # an odd number: one of two processes has nothing to do in the last update
SENTENCES = 4  # of a batch
WORDS = ["<sep>", *(f"w{i}" for i in range(12))]

COMMON = (
    "--optimizer adam --lr 0.01 --weight-decay 0.01 --clip-norm 1 --cpu --batch-size 4 "
    "--save-dir {folder}"
)
WIDTH = "--encoder-embed-dim 32 --decoder-embed-dim 32"
FFN = "--encoder-ffn-embed-dim 48 --decoder-ffn-embed-dim 48"
SMALL = f"{WIDTH} {FFN} --encoder-layers 2 --decoder-layers 2"
PET = f"--arch pet_transformer {SMALL}"
TIED = "--share-decoder-input-output-embed"
LM = (
    "--decoder-layers 2 --decoder-embed-dim 16 --decoder-ffn-embed-dim 24 "
    "--decoder-attention-heads 2 --tokens-per-sample 64 --dropout 0"
)
ROBERTA = (
    "--encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 "
    "--encoder-attention-heads 2 --dropout 0 --attention-dropout 0"
)


BACKENDS = {
    "--ddp-backend legacy_ddp": {"ddp_backend": "legacy_ddp"},
    "--ddp-backend pytorch_ddp": {"ddp_backend": "pytorch_ddp"},
    "--ddp-backend pytorch_ddp --find-unused-parameters": {
        **{"ddp_backend": "pytorch_ddp", "find_unused_parameters": True}
    },
}
WORKERS = [(1, 0), (2, 0), (2, 1)]  # how many processes train together, and which this one is


class Case(NamedTuple):
    """A training: which data it is about, and its options."""

    data: str  # a key of DATA
    options: str  # {folder}: where `prepare` has put dictionaries and models


def distillation(model: str, criterion: str = "pet_distillation") -> Case:
    """A student of the prepared teacher."""
    teacher = "--teacher-path {folder}/teacher.pt"
    return Case("translation", f"{model} --dropout 0 --criterion {criterion} {teacher}")


def compression(data: str, model: str, weight: float = 0) -> Case:
    """A smaller form of the prepared model for such data."""
    size = "--kept-layers 1" if model == "first_layers" else "--compression-ratio 2"
    options = f"--arch {model} --backbone-path {{folder}}/{data}.pt {size}"
    return Case(data, f"{options} --criterion variator_distillation --task-loss-weight {weight}")


# --- models that are there before a training begins -----------------------------------------------

PREPARED = {
    "teacher": Case("translation", f"--arch transformer_tiny {TIED}"),
    "translation": Case("translation", "--arch transformer_tiny --dropout 0"),
    "classes": Case("classes", f"--arch roberta {ROBERTA} --criterion sentence_prediction"),
    "text": Case("text", f"--arch transformer_lm {LM}"),
    "prompts": Case("text", f"--arch transformer_lm {LM}"),
    "plugins": compression("translation", "variator"),
}

CASES = {
    "pet_distillation": distillation(PET),
    "pet_distillation, tied": distillation(f"{PET} {TIED}"),
    "pet_distillation, tied, 4 bits": distillation(
        f"{PET} {TIED} --optimizer quantised_adam --quantised-bits 4"
    ),
    "pet_simplified_task": distillation(PET, "pet_simplified_task"),
    "pet_simplified_task, project": distillation(
        PET, "pet_simplified_task --simplified-head project"
    ),
    "pet_simplified_task, replace": distillation(
        PET, "pet_simplified_task --simplified-head replace"
    ),
    "pet_simplified_task, replace, tied": distillation(
        f"{PET} {TIED}", "pet_simplified_task --simplified-head replace"
    ),
    "patient_kd, maps": distillation(f"--arch transformer_tiny {WIDTH}", "patient_kd"),
    "patient_kd, no maps": distillation("--arch transformer_tiny", "patient_kd"),
    "can": distillation(f"--arch can_transformer {SMALL}"),
    "can, cross-entropy": Case(
        "translation",
        f"--arch can_transformer {SMALL} --dropout 0 --criterion label_smoothed_cross_entropy",
    ),
    "deep_shallow": distillation(f"--arch deep_shallow_6_1 {WIDTH} {FFN}"),
    **{
        f"{model}, {data}": compression(data, f"{model}{more}")
        for model in ("variator", "token_pruning", "narrow_ffn")
        for data, more in (("translation", ""), ("classes", ""), ("text", ""))
        if (model, data) != ("token_pruning", "text")
    },
    **{
        f"{model}, {data}, with task loss": compression(data, model, weight=0.5)
        for model, data in (
            ("variator", "translation"),
            ("token_pruning", "classes"),
            ("narrow_ffn", "translation"),
        )
    },
    "first_layers, classes": compression("classes", "first_layers"),
    "variator, two ratios": compression(
        "translation", "variator --plugin-path {folder}/plugins.pt --compression-ratio 3"
    ),
    "low_rank, translation": Case(
        "translation",
        "--arch low_rank --backbone-path {folder}/translation.pt --lora-rank 2 "
        "--criterion label_smoothed_cross_entropy",
    ),
    "low_rank, classes": Case(
        "classes",
        "--arch low_rank --backbone-path {folder}/classes.pt --lora-rank 2 "
        "--criterion sentence_prediction",
    ),
    "selfcp": Case(
        "prompts",
        "--arch selfcp --backbone-path {folder}/prompts.pt --window 7 --criterion selfcp_lm",
    ),
    "selfcp, low-rank updates": Case(
        "prompts",
        "--arch selfcp --backbone-path {folder}/prompts.pt --window 7 --criterion selfcp_lm "
        "--lora-rank 2",
    ),
}
CASES |= {
    "bert": Case("classes", f"--arch bert {ROBERTA} --criterion sentence_prediction"),
    "bert, no token types": Case(
        "classes",
        f"--arch bert {ROBERTA} --token-types 0 --pooler-activation-fn relu "
        "--criterion sentence_prediction",
    ),
    "marian": Case(
        "translation", f"--arch marian {SMALL} --swish --dropout 0 --criterion cross_entropy"
    ),
    "marian_student": Case(
        "translation",
        f"--arch marian_student {SMALL} --share-all-embeddings --dropout 0 "
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
    ),
    "pet_marian_student": Case(
        "translation",
        f"--arch pet_marian_student {SMALL} --share-all-embeddings --dropout 0 "
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
    ),
    "t5": Case(
        "translation",
        f"--arch t5 {SMALL} --share-all-embeddings --scale-output --dropout 0 "
        "--attention-dropout 0 --activation-dropout 0 --criterion cross_entropy",
    ),
    "t5, gated, a bias for each layer": Case(
        "translation",
        f"--arch t5 {SMALL} --gated-ffn --attention-head-dim 6 --relative-bias-per-layer "
        "--dropout 0 --attention-dropout 0 --activation-dropout 0 --criterion cross_entropy",
    ),
    "bilingual_transformer": Case(
        "translation",
        f"--arch bilingual_transformer {SMALL} --dropout 0 --criterion cross_entropy "
        "--source-prefix w1 --decoder-start w2",
    ),
    "bilingual_bart": Case(
        "translation",
        f"--arch bilingual_bart {SMALL} --dropout 0 --criterion cross_entropy "
        "--source-end </s> w1 --decoder-start w2",
    ),
    "bilingual_marian": Case(
        "translation",
        f"--arch bilingual_marian {SMALL} --swish --dropout 0 --criterion cross_entropy "
        "--source-prefix w1",
    ),
    "gpt2": Case(
        "text",
        f"--arch gpt2 {LM} --decoder-input-dim 16 --decoder-output-dim 16 "
        "--criterion cross_entropy",
    ),
    "llama": Case(
        "text", f"--arch llama {LM} --decoder-key-value-heads 1 --criterion cross_entropy"
    ),
    "llama, norms of heads": Case(
        "text", f"--arch llama {LM} --decoder-head-dim 6 --qk-norm --criterion cross_entropy"
    ),
}
CASES["variator, text"] = CASES["variator, text"]._replace(
    options=CASES["variator, text"].options + " --prompt-end <sep>"
)


# --- batches --------------------------------------------------------------------------------------


def draw(*lengths: int) -> list[torch.Tensor]:
    """Random words, so many for each text."""
    return [torch.randint(5, 4 + len(WORDS), (length,)) for length in lengths]


def random_lengths() -> list[int]:
    return torch.randint(2, 9, (BATCHES * SENTENCES,)).tolist()


def collate(rows: list[torch.Tensor], pad: int) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)


def chunks(rows: list) -> list[list]:
    return [rows[i : i + SENTENCES] for i in range(0, len(rows), SENTENCES)]


def translation_batches(task) -> list[dict]:
    """Sentence pairs; the task gets them as its training set."""
    dictionary = task.source_dictionary
    end = torch.tensor([dictionary.eos()])
    sides = [[torch.cat([words, end]) for words in draw(*random_lengths())] for _ in range(2)]
    source, target = ((side, [len(words) for words in side], dictionary) for side in sides)
    dataset = task.datasets["train"] = LanguagePairDataset(*source, *target)
    return [
        dataset.collater([dataset[i] for i in numbers]) for numbers in chunks(range(len(dataset)))
    ]


def class_batches(task) -> list[dict]:
    """Sentences and their classes."""
    batches = []
    for texts in chunks(draw(*random_lengths())):
        batches.append(text_batch(texts, torch.randint(0, 2, (len(texts), 1)), task))
    return batches


def text_batches(task) -> list[dict]:
    """Prompts, their end symbol and more; the texts of the first batch have no prompt."""
    sep = torch.tensor([task.source_dictionary.index("<sep>")])
    batches = []
    for texts in chunks(draw(*random_lengths())):
        rows = [words if not batches else torch.cat([words, sep, *draw(3)]) for words in texts]
        target = collate([row[1:] for row in rows], task.source_dictionary.pad())
        batches.append(text_batch([row[:-1] for row in rows], target, task))
    return batches


def text_batch(texts: list[torch.Tensor], target: torch.Tensor, task) -> dict:
    lengths = torch.tensor([len(words) for words in texts])
    tokens = collate(texts, task.source_dictionary.pad())
    return {
        "id": torch.arange(len(texts)),
        "nsentences": len(texts),
        "ntokens": int(lengths.sum()),
        "net_input": {"src_tokens": tokens, "src_lengths": lengths},
        "target": target,
    }


def prompt_batches(task) -> list[dict]:
    """Queries, prompts and responses; the prompts of the first batch are too short to compress."""
    batches = []
    for i in range(BATCHES):
        lengths = [(2, 5), (0, 4)] if i == 0 else [(2, 5), (0, 9), (1, 14), (3, 10 + i)]
        batch = make_sample(task, lengths, seed=i)
        tokens = int(batch["target"].ne(task.source_dictionary.pad()).sum())
        ids = torch.arange(len(lengths)) + SENTENCES * i
        batches.append({**batch, "id": ids, "ntokens": tokens, "nsentences": len(lengths)})
    return batches


class Data(NamedTuple):
    """A kind of data: options that choose its task, and how its batches are made."""

    options: str
    batches: Callable


DATA = {
    "translation": Data("-s de -t en", translation_batches),
    "classes": Data("--task sentence_prediction --num-classes 2 --max-positions 64", class_batches),
    "text": Data("--task language_modeling", text_batches),
    "prompts": Data("--task selfcp", prompt_batches),
}


# --- what fairseq-train makes of the options ------------------------------------------------------


def read_options(case: Case, folder: Path, more: str = "") -> DictConfig:
    """Read the options as fairseq-train does."""
    words = " ".join([COMMON, DATA[case.data].options, case.options, more]).format(folder=folder)
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [str(folder), *words.split()])
    cfg = convert_namespace_to_omegaconf(args)
    add_defaults(cfg)
    return cfg


def build(cfg: DictConfig):
    """Task and model, from the same random numbers in every process."""
    utils.set_torch_seed(1)
    task = tasks.setup_task(cfg.task)
    return task, task.build_model(cfg.model)


def prepare(folder: Path) -> None:
    """Write dictionaries and the models that are trained before."""
    dictionary = Dictionary()
    for i, word in enumerate(WORDS):
        dictionary.add_symbol(word, n=20 - i)
    labels = Dictionary()
    for label in ("0", "1"):
        labels.add_symbol(label)
    for name in ("input0", "label"):
        (folder / name).mkdir()
    for name in ("dict.de.txt", "dict.en.txt", "dict.txt", "input0/dict.txt"):
        dictionary.save(str(folder / name))
    labels.save(str(folder / "label/dict.txt"))
    for name, case in PREPARED.items():
        cfg = read_options(case, folder)
        _, model = build(cfg)
        state = {
            "args": None,
            "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
            "model": model.state_dict(),
            "optimizer_history": [
                {"optimizer_name": "adam", "lr_scheduler_state": {}, "num_updates": 1}
            ],
            "extra_state": {"train_iterator": {"epoch": 1}},
        }
        torch.save(state, folder / f"{name}.pt")
