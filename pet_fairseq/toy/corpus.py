"""A small parallel corpus from a probabilistic grammar: German-like source, English-like target.

Function words are real, content words are coined. The language is fixed, only the sentences depend
on the seed. The modules build on each other: words, lexicon, grammar, corpus.
A clause is built once, as a subject, a verb and parts in named slots, then spelled in the order of
each language. Hard for a small model: rare words, the prefix at the end of a German clause that
decides the English verb, pronouns that follow grammatical gender in German and natural gender in
English, objects before subjects, verbs and prepositions with several senses.
"""

import os
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Optional

from sacremoses import MosesDetokenizer

from pet_fairseq.errors import UserError
from pet_fairseq.files import naming
from pet_fairseq.toy.grammar import (
    WHO,
    Clause,
    Draw,
    Part,
    Phrase,
    adverbials,
    distinct,
    english_clause,
    german_clause,
    make_clause,
    noun_phrase,
    pronoun_for,
)
from pet_fairseq.toy.lexicon import build_lexicon
from pet_fairseq.toy.words import COORDINATORS, QUESTION_WORDS, SUBORDINATORS, TENSES, Pair

# --- sentences -----------------------------------------------------------------------------------


def statement(draw: Draw, clause: Clause) -> Pair:
    """A verb-second main clause, which often opens with something other than its subject."""
    fronts = [part for part in clause.parts if part.slot in ("time", "place")]
    for part in clause.parts:
        if part.phrase and not part.light and distinct(clause.subject, part.phrase, part.slot):
            fronts.append(part)
    front = draw.rng.choice(fronts) if fronts and draw.chance(0.45) else None
    return german_clause(clause, "second", front), english_clause(clause, front=front)


def simple_sentence(draw: Draw) -> Pair:
    german, english = statement(draw, make_clause(draw, 0))
    return f"{german} .", f"{english} ."


def next_clause(draw: Draw, antecedent: Phrase) -> Clause:
    """A clause in which a pronoun may stand for the antecedent, the subject before it."""
    role = draw.weighted(dict(subject=45, goal=20, none=35))
    return make_clause(draw, 1, **{} if role == "none" else {role: pronoun_for(antecedent)})


def complex_sentence(draw: Draw) -> Pair:
    """A main clause with a verb-final adverbial clause after or before it."""
    first = make_clause(draw, 0)
    second = next_clause(draw, first.subject)
    clause_first = draw.chance(0.4)
    inner, outer = (first, second) if clause_first else (second, first)
    word, english_word = draw.zipf(SUBORDINATORS)
    if word == "wenn" and inner.tense == "perfect":  # the verb, at the clause's end, decides
        english_word = "whenever"
    german = f"{word} {german_clause(inner, 'final')}"
    english = f"{english_word} {english_clause(inner)}"
    if clause_first:
        main = german_clause(outer, "first"), english_clause(outer)
        return f"{german} , {main[0]} .", f"{english} , {main[1]} ."
    main = statement(draw, outer)
    return f"{main[0]} , {german} .", f"{main[1]} {english} ."


def reported_sentence(draw: Draw) -> Pair:
    """A verb of saying with a "dass" or "ob" clause."""
    speaker = noun_phrase(draw, draw.noun(person=1), 1)
    inner = next_clause(draw, speaker)
    word, english_word = ("dass", "that") if draw.chance(0.75) else ("ob", "whether")
    if word == "dass" and draw.chance(0.1):
        english_word = ""
    german, english = german_clause(inner, "final"), english_clause(inner)
    part = Part("after", f", {word} {german}", f"{english_word} {english}")
    verb, tense = draw.zipf(draw.lexicon.verbs["say"]), draw.weighted(TENSES)
    parts = (*adverbials(draw, tense, "say", 1), part)
    main = statement(draw, Clause(speaker, verb, tense, parts, negated=draw.chance(0.1)))
    return f"{main[0]} .", f"{main[1]} ."


def coordinated_sentence(draw: Draw) -> Pair:
    """Two main clauses."""
    first = make_clause(draw, 1)
    one, two = statement(draw, first), statement(draw, next_clause(draw, first.subject))
    word, english_word = draw.zipf(COORDINATORS)
    return f"{one[0]} , {word} {two[0]} .", f"{one[1]} , {english_word} {two[1]} ."


def question(draw: Draw) -> Pair:
    """A yes or no question, or one that opens with a question word."""
    kind = draw.weighted(dict(polar=45, adverb=25, subject=15, object=15))
    if kind == "subject":
        clause = make_clause(draw, 0, subject=WHO)
        return f"{german_clause(clause, 'second')} ?", f"{english_clause(clause)} ?"
    clause = make_clause(draw, 0, goal=WHO if kind == "object" else None)
    if kind == "adverb":
        words = draw.zipf(QUESTION_WORDS)
        clause = replace(clause, parts=(*clause.parts, Part("manner", *words, wh=True)))
    order = "first" if kind == "polar" else "second"
    return f"{german_clause(clause, order)} ?", f"{english_clause(clause, question=True)} ?"


PATTERNS = {simple_sentence: 45, complex_sentence: 20, reported_sentence: 10}
PATTERNS |= {coordinated_sentence: 13, question: 12}

# --- corpus --------------------------------------------------------------------------------------

DEFAULT_SIZES = {"train": 16000, "valid": 500, "test": 500}
LENGTHS = range(6, 31)  # tokens of a German sentence


def tidy(text: str) -> str:
    """Single spaces, no comma before another mark, "an" before a vowel."""
    text = re.sub(r"( ,)+(?= [,.?])", "", " ".join(text.split()))
    return re.sub(r"\ba(?= [aeiou])", "an", text)


def sentences(seed: int, split: str) -> Iterator[Pair]:
    """An endless stream of sentence pairs; each seed and split has its own."""
    draw = Draw(random.Random(f"{seed} {split}"), build_lexicon())
    while True:
        german, english = draw.weighted(PATTERNS)(draw)
        german = tidy(german)
        if len(german.split()) in LENGTHS:
            yield german, tidy(english)


def checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """The default sizes with the given ones. Raises UserError if one is not a positive int."""
    for name, size in sizes.items():
        if name not in DEFAULT_SIZES:
            raise UserError(f"sizes: {name!r} is not a part of the corpus; use train, valid, test")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UserError(f"--{name}-size: {size!r} is not allowed; give a whole number above 0")
    return DEFAULT_SIZES | dict(sizes)


def write_files(out: Path, files: Mapping[str, str]) -> None:
    """Writes all files under temporary names, then renames them: no file is ever half there."""
    out.mkdir(parents=True, exist_ok=True)
    drafts = {name: out / f".{name}.{os.getpid()}.tmp" for name in files}
    try:
        for name, text in files.items():
            with naming(out / name):
                drafts[name].write_text(text, encoding="utf-8", newline="\n")
        for name, draft in drafts.items():
            draft.replace(out / name)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def write_corpus(out: Path, seed: int = 1, sizes: Optional[Mapping[str, int]] = None) -> None:
    """Writes train, valid and test (.de the source, .en the target) into the folder `out`.

    One tokenised sentence a line, the two sides aligned; the same seed and sizes give the same
    bytes. No source sentence of test or valid occurs twice, or in train. `reference.en` is test.en
    as people write it, without the blanks between words and punctuation.

    Args:
        out: the folder; it is made if it is missing.
        seed: any int. All seeds share one language.
        sizes: sentence pairs in "train", "valid", "test"; DEFAULT_SIZES for what is missing.

    Raises:
        UserError: a ValueError that names the option, for a seed, size or folder not allowed.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UserError(f"--seed: {seed!r} is not allowed; give a whole number")
    wanted = checked_sizes(sizes or {})
    if out.exists() and not out.is_dir():
        raise UserError(f"OUT: {out} is a file; give a folder")
    held_out: set[str] = set()
    files = {}
    for split in ("test", "valid", "train"):
        pairs: list[Pair] = []
        stream = sentences(seed, split)
        while len(pairs) < wanted[split]:
            german, english = next(stream)
            if german not in held_out:
                pairs.append((german, english))
                if split != "train":
                    held_out.add(german)
        files[f"{split}.de"] = "".join(f"{german}\n" for german, _ in pairs)
        files[f"{split}.en"] = "".join(f"{english}\n" for _, english in pairs)
    files["reference.en"] = detokenised(files["test.en"])
    write_files(out, files)


def detokenised(text: str) -> str:
    """Tokenised English text as people write it, line by line."""
    detokeniser = MosesDetokenizer("en")
    return "".join(f"{detokeniser.detokenize(line.split())}\n" for line in text.splitlines())
