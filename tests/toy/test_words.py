"""The toy corpus's words: lengths, frequencies, ambiguity, numbers."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import islice

from pet_fairseq.toy import corpus as toy


def slope(values, first, last):
    """Of log(value) over log(rank), by least squares."""
    x = [math.log(rank) for rank in range(first, last + 1)]
    y = [math.log(value) for value in values[first - 1 : last]]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    products = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return products / sum((a - mean_x) ** 2 for a in x)


def test_lengths(corpus):
    lengths = [len(german) for german, _ in corpus]
    mean = sum(lengths) / len(lengths)
    spread = math.sqrt(sum((n - mean) ** 2 for n in lengths) / len(lengths))
    assert min(lengths) == 6 and max(lengths) == 30
    assert 13 < mean < 16 and spread > 5


def test_vocabulary_is_zipf_like(corpus, nouns):
    for side, least, most in ((0, 3500, 5500), (1, 2300, 3600)):
        counts = Counter(word for pair in corpus[:16000] for word in pair[side])
        assert least < len(counts) < most
        assert -1.4 < slope(sorted(counts.values(), reverse=True), 5, 1000) < -0.9
        unseen = [word for pair in corpus[16500:] for word in pair[side] if word not in counts]
        assert len(unseen) < 0.005 * sum(len(pair[side]) for pair in corpus[16500:])
    forms = {form for noun in nouns for form in noun.german}
    counts = Counter(word for german, _ in corpus for word in german if word in forms)
    assert -1.2 < slope(sorted(counts.values(), reverse=True), 5, 500) < -0.7


def test_no_two_words_share_a_form(nouns, verbs):
    """Or the source would not tell them apart."""
    german, english = Counter(), Counter()
    for noun in nouns:
        german.update(set(noun.german))
        english.update(set(noun.english))
    modifiers = [*toy.build_lexicon().adjectives, *toy.build_lexicon().manners]
    for word, words in modifiers:
        german[word] += 1
        english.update(words)
    german.update({form for verb in verbs for form in (verb.infinitive, verb.participle)})
    for verb in verbs:
        if "be" not in verb.senses[0]:
            english.update({verb.senses[0][0], verb.senses[1][0]})
    assert german.most_common(1)[0][1] == english.most_common(1)[0][1] == 1
    assert 1200 < len({noun.german for noun in nouns}) + len(verbs) + len(modifiers) < 2000


def test_same_source_same_target(monkeypatch):
    """But for a few synonyms. A lexicon of a few words makes sentences repeat."""
    lexicon = toy.build_lexicon()
    few = replace(
        lexicon,
        nouns={kind: words[:2] for kind, words in lexicon.nouns.items()},
        verbs={frame: words[:2] for frame, words in lexicon.verbs.items()},
        adjectives=lexicon.adjectives[:2],
        manners=lexicon.manners[:2],
    )
    monkeypatch.setattr(toy, "build_lexicon", lambda: few)
    monkeypatch.setattr(toy, "LENGTHS", range(5, 9))
    targets = defaultdict(Counter)
    for german, english in islice(toy.sentences(1, "train"), 4000):
        targets[german][english] += 1
    repeated = [counts for counts in targets.values() if counts.total() > 1]
    total = sum(counts.total() for counts in repeated)
    assert total > 250
    assert sum(max(counts.values()) for counts in repeated) > 0.95 * total


def test_synonyms_are_rare(corpus):
    """The only words with a choice: one in six modifiers has a second translation."""
    lexicon = toy.build_lexicon()
    words = [english for _, english in (*lexicon.adjectives, *lexicon.manners) if len(english) > 1]
    assert 0.1 < len(words) / (len(lexicon.adjectives) + len(lexicon.manners)) < 0.25
    counts = Counter(word for _, english in corpus for word in english)
    first, second = (sum(counts[pair[at]] for pair in words) for at in (0, 1))
    assert 0.1 < second / (first + second) < 0.2


# --- numbers

UNITS_DE = "ein zwei drei vier fünf sechs sieben acht neun".split()
TEENS_DE = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()
TENS_DE = "zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
UNITS_EN = "one two three four five six seven eight nine".split()
TEENS_EN = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS_EN = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def german_number(word):
    """The number a word means, or None."""
    if word in TENS_DE:
        return 20 + 10 * TENS_DE.index(word)
    if word in TEENS_DE:
        return 10 + TEENS_DE.index(word)
    if word in UNITS_DE:
        return 1 + UNITS_DE.index(word)
    unit, und, tens = word.partition("und")
    if und and unit in UNITS_DE and tens in TENS_DE:
        return german_number(tens) + german_number(unit)
    return None


def german_numbers(tokens):
    """All numbers but the article; "halb acht" is half past seven."""
    numbers = []
    for at, word in enumerate(tokens):
        if at and tokens[at - 1] == "halb":
            hour = 1 if word == "eins" else german_number(word)
            numbers.append(hour - 1 if hour > 1 else 12)
        elif german_number(word) and (word != "ein" or tokens[at + 1] == "uhr"):
            numbers.append(german_number(word))
    return sorted(numbers)


def english_numbers(tokens):
    numbers = []
    for before, word in zip([".", *tokens], tokens):
        if word in TENS_EN:
            numbers.append(20 + 10 * TENS_EN.index(word))
        elif word in TEENS_EN:
            numbers.append(10 + TEENS_EN.index(word))
        elif word in UNITS_EN and before in TENS_EN:
            numbers[-1] += 1 + UNITS_EN.index(word)
        elif word in UNITS_EN:
            numbers.append(1 + UNITS_EN.index(word))
    return sorted(numbers)


def test_numbers_match(corpus):
    seen = Counter()
    for german, english in corpus:
        numbers = german_numbers(german)
        assert numbers == english_numbers(english), (german, english)
        seen.update(numbers)
    assert set(range(1, 100)) == set(seen)
    assert sum("halb" in german for german, _ in corpus) > 100


def test_number_parsers():
    assert german_numbers("um halb eins drei".split()) == [3, 12]
    assert german_numbers("ein mann um ein uhr".split()) == [1]
    assert german_number("einundzwanzig") == 21 and german_number("hund") is None
    assert english_numbers("twenty one and two".split()) == [2, 21]
