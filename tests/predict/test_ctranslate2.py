"""What a folder in CTranslate2 must tell before its model translates."""

import json

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.multilingual.language_tokens import LanguageTokens
from pet_fairseq.predict.ctranslate2 import check_tokens


def test_a_model_without_ends_of_sentences_is_refused(tmp_path):
    check_tokens(tmp_path)  # an old converter wrote no options, and always adds the end
    options = tmp_path / "config.json"
    options.write_text(json.dumps({"add_source_eos": True}))
    check_tokens(tmp_path)
    of_opennmt = {"add_source_eos": False, "decoder_start_token": "<s>"}  # they have no end
    options.write_text(json.dumps(of_opennmt))
    check_tokens(tmp_path)
    for config in ({"add_source_eos": False, "decoder_start_token": "</s>"}, {}):
        options.write_text(json.dumps(config))
        with pytest.raises(UserError, match=f"^{tmp_path}: its converter left .* compress "):
            check_tokens(tmp_path)
    LanguageTokens(source_end=("</s>", "deu_Latn")).write(tmp_path)
    check_tokens(tmp_path)


@pytest.mark.parametrize("text", ["", "[1]", '{"add', "[" * 100_000])
def test_options_that_cannot_be_read(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config\.json: cannot be read; convert the model again"):
        check_tokens(tmp_path)
