"""German and English hold what the grammar promises.

It is checked by reading the corpus with rules written here. From the package come only lists of
words: nouns with their gender, verbs with their prefixes.
"""

import re
from collections import Counter, defaultdict

from pet_fairseq.toy import corpus as toy


def test_gender_agreement(corpus, nouns):
    """Words that show one gender only, right before a noun."""
    shown = {"eine": "f", "jede": "f", "das": "n", "einen": "m", "jeden": "m", "jedes": "n"}
    genders = {noun.german[0]: noun.gender for noun in nouns}
    genitives = {noun.german[2] for noun in nouns if noun.german[2] != noun.german[0]}
    found = defaultdict(set)
    for german, _ in corpus:
        for before, word, after in zip([".", *german], german, german[1:]):
            relative = word == "das" and before == ","
            if word in shown and not relative and after in genders and after not in genitives:
                found[after].add(shown[word])
    assert len(found) > 400
    assert {noun: {genders[noun]} for noun in found} == dict(found)
    assert Counter(genders.values()).keys() == {"m", "f", "n"}


def test_adjectives_show_what_the_article_does_not(corpus, nouns):
    """ "ein alter baum", "ein altes haus", but "der alte baum", "das alte haus"."""
    genders = {noun.german[0]: noun.gender for noun in nouns}
    adjectives = {word for word, _ in toy.build_lexicon().adjectives}
    allowed = {
        ("ein", "m"): {"er"},
        ("ein", "n"): {"es"},
        ("eine", "f"): {"e"},
        ("das", "n"): {"e"},
        ("einen", "m"): {"en"},
        ("die", "f"): {"e"},
    }
    seen = Counter()
    for german, _ in corpus:
        for article, word, noun in zip(german, german[1:], german[2:]):
            endings = {
                e for e in ("e", "er", "es", "en", "em") if word.removesuffix(e) in adjectives
            }
            key = article, genders.get(noun)
            if (
                key in allowed
                and endings & {"e", "er", "es", "en", "em"}
                and word not in adjectives
            ):
                assert endings & allowed[key], (article, word, noun)
                seen[key] += 1
    assert all(seen[key] > 50 for key in allowed), seen


def test_plural_nouns_have_plural_translations(corpus, nouns):
    checked = 0
    for noun in nouns:
        singular, plural = set(noun.german[:3]), set(noun.german[3:])
        if singular & plural or " " in noun.english[0]:
            continue
        for german, english in corpus[:2000]:
            if plural & set(german):
                checked += 1
                assert noun.english[1] in english, (german, english)
                assert (
                    singular & set(german)
                    or noun.english[0] not in english
                    or (is_part_of_compound(noun, nouns))
                ), (german, english)
    assert checked > 400


def is_part_of_compound(noun, nouns):
    return any(other.english[0].startswith(noun.english[0] + " ") for other in nouns)


def test_subordinate_clauses_end_in_the_finite_verb(corpus, finite_joined, finite_apart):
    """In sentences whose only comma opens the clause."""
    seen = Counter()
    for german, _ in corpus:
        word = next((w for w in ("dass", "ob", "weil", "obwohl", "bevor") if w in german), None)
        if word is None or german.count(",") != 1 or german[german.index(word) - 1] != ",":
            continue
        clause = german[german.index(word) + 1 : -1]
        assert clause[-1] in finite_joined, german
        assert clause[0] not in finite_apart and not set(clause[:-1]) & {"ist", "hat", "muss"}
        seen[word] += 1
    assert all(seen[word] > 100 for word in ("dass", "ob", "weil", "obwohl", "bevor")), seen


def test_verb_comes_second_or_first(corpus, finite_apart):
    adverbs = {"gestern": "yesterday", "heute": "today", "morgen": "tomorrow"}
    fronted, polar = 0, 0
    for german, english in corpus:
        if german[0] in adverbs:
            fronted += 1
            assert german[1] in finite_apart, german
            assert english[0] == adverbs[german[0]], (german, english)
        elif german[-1] == "?" and german[0] not in "wer wen wem wann warum wo wie".split():
            polar += 1
            assert german[0] in finite_apart, german
            assert english[0] in "is am are was were do does did can must may should will".split()
    assert fronted > 150 and polar > 400


def test_time_moves_to_the_end(corpus):
    """German has time before place and manner, English has it last."""
    inner = 0
    for german, english in corpus:
        if "," not in german and german[-1] == "." and "gestern" in german[1:-2]:
            inner += 1
            assert english[-2] == "yesterday", (german, english)
    assert inner > 50


def test_separated_prefix_decides_the_english_verb(corpus, verbs):
    """A prefix closes its main clause; with the finite verb before it, it names the translation."""
    by_parts = {(form, verb.prefix): verb for verb in verbs for form in verb.present}
    prefixes = {verb.prefix for verb in verbs} - {""}
    bases = {form for form, prefix in by_parts if prefix}
    seen, distances = Counter(), []
    for german, english in corpus:
        closing = german[-2]
        if "," in german or closing not in prefixes:
            continue
        candidates = [at for at, word in enumerate(german) if (word, closing) in by_parts]
        assert candidates, german
        verb = by_parts[german[candidates[0]], closing]
        forms = [f" {form} " for sense in verb.senses for form in sense[:2]]
        assert any(form in f" {' '.join(english)} " for form in forms), (german, english)
        seen[closing] += 1
        distances.append(len(german) - 2 - candidates[0])
    assert set(seen) == set("an auf aus ein mit ab vor zu nach".split())
    assert seen.total() > 800 and max(distances) > 12
    several = [
        base
        for base in bases
        if len({v.senses[0][0] for (b, _), v in by_parts.items() if b == base}) > 2
    ]
    assert len(several) > 40


def test_a_prefix_is_joined_at_the_end_of_a_subordinate_clause(corpus, verbs):
    joined = {verb.prefix + form for verb in verbs if verb.prefix for form in verb.present}
    prefixes = {verb.prefix for verb in verbs} - {""}
    count = 0
    for german, _ in corpus:
        if "dass" in german and german.count(",") == 1:
            assert german[-2] not in prefixes, german
            count += german[-2] in joined
    assert count > 100


def test_perfect_brackets_the_clause(corpus, verbs):
    """haben or sein second, the participle last; the English past has no auxiliary."""
    participles = {verb.prefix + verb.participle: verb for verb in verbs}
    auxiliaries = defaultdict(set)
    for german, english in corpus:
        if "," in german or german[-1] == "?" or german[-2] not in participles:
            continue
        verb = participles[german[-2]]
        used = set(german) & {"hat", "haben", "habe", "hast", "ist", "sind", "bin", "bist"}
        if not used:
            continue  # the passive, with werden
        assert len(used) == 1, german
        auxiliaries[german[-2]].add("sein" if used & {"ist", "sind", "bin", "bist"} else "haben")
        past = {sense[2] for sense in verb.senses} | {"did", "was", "were"}
        assert any(form in " ".join(english) for form in past), (german, english)
    assert len(auxiliaries) > 150 and all(len(used) == 1 for used in auxiliaries.values())
    assert {"sein", "haben"} == set.union(*auxiliaries.values())


def test_relative_pronouns_agree_with_the_noun(corpus, nouns):
    """ "NOUN , PRONOUN": the gender and number of a noun whose form shows its number."""
    number = {}
    for noun in nouns:
        singular, plural = set(noun.german[:3]), set(noun.german[3:])
        for form in (singular | plural) - (singular & plural):
            number[form] = (noun.gender if form in singular else "p", noun.kind)
    allowed = {"m": "der den dem", "f": "die der", "n": "das dem", "p": "die denen"}
    seen, english_pronouns = Counter(), defaultdict(Counter)
    for german, english in corpus:
        for noun, comma, word in zip(german, german[1:], german[2:]):
            if (
                comma == ","
                and word in {"der", "die", "das", "den", "dem", "denen"}
                and noun in number
            ):
                form, kind = number[noun]
                assert word in allowed[form].split(), german
                seen[form, word] += 1
                if len({"who", "whom", "which"} & set(english)) == 1:
                    english_pronouns[kind].update({"who", "whom", "which"} & set(english))
    expected = {(form, word) for form, words in allowed.items() for word in words.split()}
    assert set(seen) == expected and seen.total() > 1000
    assert set(english_pronouns["person"]) == {"who", "whom"}
    assert set(english_pronouns["thing"]) == set(english_pronouns["place"]) == {"which"}


def test_pronouns_follow_the_noun_not_its_gender(corpus, nouns):
    """ "der tisch ... , und er": it; "der lehrer ... , und er": he; for some nouns she."""
    known = {noun.german[0]: noun for noun in nouns}
    translations = defaultdict(set)
    for german, english in corpus:
        if german[0] not in ("der", "die", "das") or german.count(",") != 1 or len(german) < 8:
            continue
        conjunction = german.index(",") + 1
        if german[conjunction] not in ("und", "aber", "weil", "obwohl"):
            continue
        pronoun = german[conjunction + 1]
        noun = known.get(german[1])
        if noun and noun.gender == {"er": "m", "es": "n"}.get(pronoun) and "des" not in german:
            found = {"he", "she", "it"} & set(english)
            if len(found) == 1:
                translations[noun].update(found)
    assert all(found == {noun.pronoun} for noun, found in translations.items())
    groups = {(noun.gender, *found) for noun, found in translations.items()}
    assert {("m", "he"), ("m", "she"), ("m", "it"), ("n", "it")} <= groups, groups


def test_case_tells_a_goal_from_a_place(corpus, nouns):
    """ "in die stadt": "into" or "to", "in der stadt": "in" or "at", as the noun demands."""
    places = {
        (noun.spot[0], noun.german[0]): noun
        for noun in nouns
        if noun.kind == "place" and noun.gender == "f" and noun.german[0] not in noun.german[3:]
    }
    seen = Counter()
    for german, english in corpus:
        for word, article, noun, after in zip(german, german[1:], german[2:], german[3:]):
            if (word, noun) in places and article in ("der", "die") and after not in ("des", "der"):
                place = places[word, noun]
                expected = place.spot[2 if article == "die" else 1]
                assert f"{expected} the {place.english[0]}" in " ".join(english), (german, english)
                seen[expected] += 1
    assert {"in", "at", "on"} <= set(seen) and {"into", "to", "onto"} & set(seen), seen


def test_compounds_are_one_german_word(nouns, corpus):
    compounds = [noun for noun in nouns if " " in noun.english[0]]
    assert len(compounds) > 60
    seen = 0
    for german, english in corpus:
        for noun in compounds[:40]:
            if noun.german[0] in german and noun.german[0] not in noun.german[3:]:
                seen += 1
                assert noun.english[0] in " ".join(english)
    assert seen > 50


def test_negation(corpus):
    """nicht stands for not, kein for no, one for one."""
    count = Counter()
    for german, english in corpus:
        kein = [word for word in german if re.fullmatch("kein(e[mnrs]?)?", word)]
        assert len(kein) == english.count("no"), (german, english)
        assert german.count("nicht") == english.count("not"), (german, english)
        count.update(kein=len(kein), nicht=german.count("nicht"))
    assert count["kein"] > 500 and count["nicht"] > 500
