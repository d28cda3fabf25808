"""The coined content words of the toy languages and their inflection."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from pet_fairseq.toy.words import (
    AUXILIARIES,
    GOVERNED,
    GOVERNED_ENGLISH,
    INSEPARABLE,
    PREFIXES,
    SPOTS,
    Pair,
)

T = TypeVar("T")


GERMAN_ONSETS = """
    b br bl d dr f fl fr g gl gr h k kl kn kr l m n pf pr r s schl schm schn schw sp spr st str t tr
    w z zw
""".split()
GERMAN_RIMES = """
    alm alt amm and ang arb arn art aub aum aul eck eld elm eng erb erm ern est eut ieb iel ieg imm
    ind ing irm old olm ond orn ost umm ung urm eib eil ein
""".split()
ENGLISH_ONSETS = """
    b bl br ch cl cr d dr f fl fr g gl gr h j l m n p pl pr r s sh shr sk sl sm sn sp spr st str sw
    t th thr tr tw v w wh y
""".split()
ENGLISH_RIMES = """
    aft aim ain amp ard ark arn ash ask awn each ead eal eam eck eed eel elp elt erk ern ift ilt ink
    int isk oach oam oast olt ond ood ook oom oop orm orth owl ulf unch urn ust
""".split()
RESERVED = "sein dein mein kein sind bald must"  # function words that could be coined
UMLAUT = {"au": "äu", "a": "ä", "o": "ö", "u": "ü"}
# Vowels of irregular verbs. German: third person, participle; English: past, participle.
GERMAN_ABLAUT = {"a": ("ä", "a"), "e": ("i", "o"), "ei": ("ei", "ie")}
ENGLISH_ABLAUT = {"i": ("a", "u"), "ea": ("o", "o"), "o": ("e", "o")}
# Verbs by frame (the parts they ask for): how many there are, how often a clause has one.
VERBS = dict(
    none=40, accusative=120, dative=25, give=25, governed=40, goal=35, reflexive=20, say=25
)
FRAMES = dict(none=14, accusative=38, dative=7, give=7, governed=10, goal=8, reflexive=4, copula=12)


@dataclass(frozen=True)
class Noun:
    gender: str  # grammatical: m, f or n
    kind: str  # person, thing or place
    german: tuple[str, ...]  # nominative, accusative or dative, genitive, plural, dative plural
    english: Pair  # singular, plural
    pronoun: str  # natural gender: he, she or it
    spot: tuple[str, ...]  # a row of SPOTS


@dataclass(frozen=True)
class Verb:
    """German forms lack the prefix. An English verb is its base, third person, past, participle."""

    present: Sequence[str]  # ich, du, er, plural
    infinitive: str
    participle: str
    auxiliary: str
    senses: tuple[Sequence[str], Sequence[str]]  # the English verb for a person, for a thing
    prefix: str = ""  # separable
    preposition: tuple[str, ...] = ()  # German, its case, English


BE = ("be", "is", "was", "been")
SEIN = Verb(AUXILIARIES["sein"], "sein", "gewesen", "sein", (BE, BE))
WERDEN = Verb(AUXILIARIES["werden"], "werden", "worden", "sein", (BE, BE))
Modifier = tuple[str, list[str]]  # German word, English word and perhaps a synonym


@dataclass(frozen=True)
class Lexicon:
    """Content words by descending frequency."""

    nouns: Mapping[str, Sequence[Noun]]  # by kind
    verbs: Mapping[str, Sequence[Verb]]  # by frame
    adjectives: Sequence[Modifier]
    manners: Sequence[Modifier]


@dataclass(frozen=True)
class Coiner:
    """Makes words, and no two with a form in common."""

    rng: random.Random
    taken: set[str]

    def coin(self, parts: Sequence[Sequence[str]], rarity: float, inflect: Callable[[str], T]) -> T:
        """The forms of a new word; the rarer (0 to 1), the likelier it has two syllables."""
        while True:
            stem = self.rng.choice(parts[0]) + self.rng.choice(parts[1])
            if self.rng.random() < rarity:
                stem = self.rng.choice("bdfgklmnprst") + self.rng.choice("aiou") + stem
            forms = inflect(stem)
            if self.taken.isdisjoint(forms):
                self.taken.update(forms)
                return forms

    def german(self, rarity: float, inflect: Callable[[str], T]) -> T:
        return self.coin((GERMAN_ONSETS, GERMAN_RIMES), rarity, inflect)

    def english(self, rarity: float, inflect: Callable[[str], T]) -> T:
        return self.coin((ENGLISH_ONSETS, ENGLISH_RIMES), rarity, inflect)


def around_vowel(stem: str) -> tuple[str, ...]:
    """What precedes the last vowel, the vowel, what follows."""
    return re.fullmatch(r"(.*?)([aeiou]+)([^aeiou]*)", stem).groups()


def umlaut(stem: str) -> str:
    head, vowel, tail = around_vowel(stem)
    return head + UMLAUT.get(vowel, vowel) + tail


def with_s(word: str) -> str:
    """An English plural or third person."""
    return word + ("es" if word.endswith(("s", "sh", "ch")) else "s")


def english_noun(stem: str) -> Pair:
    return stem, stem.replace("oo", "ee") if "oo" in stem else with_s(stem)


def english_verb(rng: random.Random, stem: str) -> tuple[str, ...]:
    """Base, third person, past, participle, for half of the verbs that can with another vowel."""
    head, vowel, tail = around_vowel(stem)
    if vowel in ENGLISH_ABLAUT and rng.random() < 0.5:
        return stem, with_s(stem), *(head + v + tail for v in ENGLISH_ABLAUT[vowel])
    return stem, with_s(stem), stem + "ed", stem + "ed"


def german_noun(rng: random.Random, stem: str, gender: str, person: bool) -> tuple[str, ...]:
    """The five forms (see Noun) in one of the declensions that the gender allows."""
    endings = {"m": ("", "", "er", "el"), "f": ("e", "", "ung"), "n": ("", "", "chen")}
    ending = rng.choice(endings[gender])
    word = stem + ending
    if ending == "" and gender == "m" and person and rng.random() < 0.4:
        return word, *[word + "en"] * 4  # weak: der mensch, den menschen
    if ending:
        plural = word + {"e": "n", "ung": "en"}.get(ending, "")
    else:
        suffixes = {"m": ("e", "~e"), "f": ("en", "~e"), "n": ("~er", "e", "s")}
        suffix = rng.choice(suffixes[gender])
        plural = umlaut(stem) + suffix[1:] if suffix[0] == "~" else stem + suffix
    genitive = word if gender == "f" else word + ("s" if ending else "es")
    return word, word, genitive, plural, plural if plural[-1] in "ns" else plural + "n"


def german_verb(rng: random.Random, stem: str, lead: str) -> tuple[str, ...]:
    """Present (ich, du, er, plural) and participle; `lead` is an inseparable prefix or ""."""
    head, vowel, tail = around_vowel(stem)
    ge, e = "" if lead else "ge", "e" if stem[-1] in "dt" else ""
    second, third, participle = f"{stem}{e}st", f"{stem}{e}t", f"{ge}{lead}{stem}{e}t"
    if vowel in GERMAN_ABLAUT and rng.random() < 0.4:
        changed, perfect = (head + v + tail for v in GERMAN_ABLAUT[vowel])
        second, third = f"{changed}st", changed if tail[-1] in "dt" else f"{changed}t"
        participle = f"{ge}{lead}{perfect}en"
    return *(lead + form for form in (f"{stem}e", second, third, f"{stem}en")), participle


def coin_noun(coiner: Coiner, kind: str, rarity: float) -> Noun:
    """A noun; one person in six or so has a grammatical gender that is not the natural one."""
    rng, person = coiner.rng, kind == "person"
    gender = rng.choice("mmffn" if person else "mfn")
    german = coiner.german(rarity, lambda stem: german_noun(rng, stem, gender, person))
    natural = {"m": "he", "f": "she", "n": rng.choice(("he", "she"))}[gender]
    if rng.random() < 0.17:
        natural = {"he": "she", "she": "he"}[natural]
    english = coiner.english(rarity, english_noun)
    return Noun(gender, kind, german, english, natural if person else "it", rng.choice(SPOTS))


def compound(coiner: Coiner, first: Noun, second: Noun) -> Noun:
    """One German word; in English two, or for one compound in four a word of its own."""
    link = coiner.rng.choice(("", "s"))
    german = tuple(first.german[0] + link + form for form in second.german)
    english = tuple(f"{first.english[0]} {form}" for form in second.english)
    if coiner.rng.random() < 0.25:
        english = coiner.english(0.8, english_noun)
    return replace(second, german=german, english=english)


def coin_nouns(coiner: Coiner, kind: str, simple: int, compounds: int) -> list[Noun]:
    nouns = [coin_noun(coiner, kind, rank / simple) for rank in range(simple)]
    for _ in range(compounds):
        new = compound(coiner, *coiner.rng.sample(nouns[: simple // 2], 2))
        nouns.insert(coiner.rng.randrange(simple // 4, len(nouns)), new)
    return nouns


def coin_verbs(coiner: Coiner) -> dict[str, list[Verb]]:
    """Verbs by frame. Most share their base with others and differ by a separable prefix only."""
    rng, frames = coiner.rng, [frame for frame, count in VERBS.items() for _ in range(count)]
    rng.shuffle(frames)
    verbs: dict[str, list[Verb]] = {frame: [] for frame in VERBS}
    while frames:
        lead = rng.choice(INSEPARABLE) if rng.random() < 0.3 else ""
        forms = coiner.german(0.3, lambda stem, lead=lead: german_verb(rng, stem, lead))
        prefixes = [] if lead else rng.sample(PREFIXES, rng.randint(0, 4))
        for prefix in ["", *prefixes][: len(frames)]:
            frame = frames.pop()
            verbs[frame].append(coin_verb(coiner, frame, forms, prefix))
    for words in verbs.values():
        rng.shuffle(words)
    return verbs | {"copula": [SEIN]}


def coin_verb(coiner: Coiner, frame: str, forms: tuple[str, ...], prefix: str) -> Verb:
    """A German base with a prefix ("" for none) and the one or two English verbs it stands for."""
    rng = coiner.rng
    particle = rng.choice((" up", " down", " off")) if rng.random() < 0.12 else ""
    senses = [coiner.english(0.5, lambda stem: english_verb(rng, stem)) for _ in range(2)]
    senses = [[form + particle for form in sense] for sense in senses]
    if frame not in ("accusative", "dative", "none") or rng.random() < 0.75:
        senses[1] = senses[0]
    auxiliary = "sein" if frame == "goal" or (frame == "none" and rng.random() < 0.3) else "haben"
    preposition = (*rng.choice(GOVERNED), rng.choice(GOVERNED_ENGLISH))
    return Verb(forms[:4], forms[3], forms[4], auxiliary, tuple(senses), prefix, preposition)


def german_adjective(rng: random.Random, stem: str) -> list[str]:
    """The bare form (which is also the adverb), then the inflected ones."""
    word = stem + rng.choice(("", "ig", "lich"))
    return [word + ending for ending in ("", "e", "em", "en", "er", "es")]


def coin_modifiers(coiner: Coiner, count: int) -> list[Modifier]:
    """Adjectives or adverbs; one in six has an English synonym."""
    modifiers = []
    for rank in range(count):
        german = coiner.german(rank / count, lambda stem: german_adjective(coiner.rng, stem))[0]
        words = range(2 if coiner.rng.random() < 0.17 else 1)
        english = [coiner.english(rank / count, lambda stem: (stem,))[0] for _ in words]
        modifiers.append((german, english))
    return modifiers


@cache
def build_lexicon() -> Lexicon:
    """The content words of the toy language, always the same."""
    coiner = Coiner(random.Random("the one toy language"), set(RESERVED.split()))
    sizes = dict(person=(200, 30), thing=(300, 80), place=(90, 20))
    nouns = {kind: coin_nouns(coiner, kind, *size) for kind, size in sizes.items()}
    adjectives, manners = coin_modifiers(coiner, 240), coin_modifiers(coiner, 60)
    return Lexicon(nouns, coin_verbs(coiner), adjectives, manners)
