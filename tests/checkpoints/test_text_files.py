"""The languages of models that may come from strangers."""

import json

import pytest

from pet_fairseq.checkpoints.text_files import LANGUAGES, read_languages, write_languages
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.encoder_decoder import dictionary_files

OUTSIDE = ("/../../notes", "..\\notes", "a/b", "/tmp", "", "de\0")


def test_there_and_back(tmp_path):
    assert read_languages(tmp_path) == {}
    write_languages(tmp_path, "deu_Latn", "zh-Hans.new")
    assert read_languages(tmp_path) == {"source_lang": "deu_Latn", "target_lang": "zh-Hans.new"}


@pytest.mark.parametrize("language", OUTSIDE)
@pytest.mark.parametrize("side", ["source_lang", "target_lang"])
def test_a_language_cannot_lead_out_of_a_folder(side, language, tmp_path):
    content = {"source_lang": "de", "target_lang": "en", side: language}
    (tmp_path / LANGUAGES).write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"languages\.json: .* cannot be the name of a language$"):
        read_languages(tmp_path)
    with pytest.raises(UserError, match=r"^CHECKPOINT: .* cannot be the name of a language$"):
        dictionary_files(tuple(content.values()))
