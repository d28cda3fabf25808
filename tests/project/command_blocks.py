"""Which test runs the commands of each block in the documents, or why none does.

A key is how the block begins. A test runs the same commands, mostly with smaller models and files
of its own; everything else is the reason why no test runs the block.
"""

INSTALLS = "installs packages, which tests must not"
GPUS = "needs GPUs or several machines"
DOWNLOADS = "downloads files of hundreds of megabytes"
MEASURES = "measures for hours; the figures beside it came from it"
MINUTES = "trains for minutes to hours; test_a_recipe_from_the_teacher_to_the_report does it tiny"
SERVES = "tests/serve/test_process.py::test_classification"
SHIPPED = "tests/cli/test_demo.py::test_the_demo"
COMPRESSES = "tests/cli/test_compress.py::test_from_a_teacher_to_a_report"
IMPORTS = "tests/serve/test_process.py::test_raw_text_for_an_imported_model"
DISTILS = "tests/cli/test_train.py::test_logs_loss_perplexity_kl_and_agreement"
PREDICTS = "tests/predict/test_imported.py::test_answers_are_those_of_the_model_by_hand"
TRANSLATES = "tests/cli/test_translate.py"
GUIDES = "tests/cli/test_guides.py"
MULTILINGUAL = "tests/cli/test_multilingual.py::test_the_page"
FROM_TRANSFORMERS = "tests/cli/test_multilingual.py::test_the_page_from_transformers"
HUGGING_FACE = "tests/cli/test_export.py::test_transformers_translates_the_same"
RUNS_PYTHON = "tests/cli/test_documented_python.py"

# Every block of these documents has the same reason or test.
DOCUMENTS = {
    "docs/results/archive/reliability.md": "tests/reliability/test_scripts.py::test_wrong_inputs",
    "docs/results": MEASURES,
    "examples/": "downloads and trains for hours; tests/cli/test_prepare*.py prepare small files",
}

# The test that runs each of the commands in these folders, tiny, or why none does.
SCRIPTS = {
    "scripts/benchmarks": {
        "allocator.py": "tests/cli/test_benchmarks.py::test_allocator",
        "answers.py": "tests/cli/test_serve_benchmarks.py::test_processor_time_of_answers",
        "attention.py": "tests/cli/test_benchmarks.py::test_attention",
        "bank.py": "tests/cli/test_benchmarks.py::test_bank",
        "corpus.py": "tests/cli/test_benchmarks.py::test_corpus",
        "decoding.py": "tests/cli/test_benchmarks.py::test_decoding_of_a_checkpoint",
        "distillation.py": "tests/cli/test_benchmarks.py::test_distillation",
        "engines.py": "tests/cli/test_benchmarks.py::test_engines",
        "frontier.py": "tests/cli/test_frontier.py::test_measures_what_is_missing",
        "gpu.py": "tests/cli/test_gpu_benchmarks.py::test_everything_at_tiny_size",
        "gpu_tests.py": "gpu.py runs it",
        "selfcp.py": "tests/cli/test_benchmarks.py::test_ways_to_read",
        "serve.py": "tests/cli/test_serve_benchmarks.py::test_the_scheduler_delivers_an_accuracy",
        "serve_accuracy.py": "tests/cli/test_serve_benchmarks.py::test_accuracy_over_requests",
        "shots.py": "tests/cli/test_benchmarks.py::test_shots",
        "pronunciations.py": "tests/cli/test_benchmarks.py::test_pronunciations",
        "translate_file.py": "tests/cli/test_benchmarks.py::test_translate_file",
        "variator.py": "tests/cli/test_benchmarks.py::test_variators_encoder",
    },
    "scripts/reliability": {
        "disk_full.py": "tests/reliability/test_scripts.py::test_a_disk_without_room",
        "fuzz.py": "tests/reliability/test_scripts.py::test_wrong_inputs",
        "http_bodies.py": "tests/serve/test_reliability.py::test_wrong_requests_do_no_harm",
        "kill.py": "tests/reliability/test_scripts.py::test_kills",
        "new_words.py": "tests/cli/test_serve_benchmarks.py::test_new_words",
        "server_load.py": "tests/serve/test_reliability.py::test_overload",
    },
}

BLOCKS = {
    "README.md": {
        "pet-fairseq compress TEACHER": COMPRESSES,
        "pet-fairseq compress opus": f"{GUIDES}::test_an_opus_mt_teacher",
        "git clone ADDRESS": INSTALLS,
        "fairseq-train BIN": DISTILS,
        "fairseq-generate BIN": "tests/cli/test_decoding.py::test_generates_what_fairseq_does",
    },
    "CONTRIBUTING.md": {"make env": INSTALLS},
    "examples/cpp/README.md": {
        "cd examples/cpp": "tests/export/test_cpp.py::test_the_same_lines",
    },
    "docs/bank.md": {"pet-fairseq bank build": "tests/cli/test_bank.py::test_generation"},
    "docs/baselines.md": {
        "fairseq-train BIN --user-dir pet_fairseq --arch can": (
            "tests/baselines/test_cli.py::test_can_trains_and_translates"
        ),
        "fairseq-train BIN --user-dir pet_fairseq --arch transformer": (
            "tests/baselines/test_cli.py::test_patient_kd_resumes_and_saves_its_maps_beside_the_model"
        ),
        "pet-fairseq keep-layers": (
            "tests/baselines/test_keep_layers.py::test_a_student_starts_from_the_first_layers"
        ),
    },
    "docs/checkpoints.md": {"python -m pytest": "it is what runs the tests"},
    "docs/compress.md": {
        "pet-fairseq compress TEACHER --data BIN --out FOLDER\n": COMPRESSES,
        "pet-fairseq compress TEACHER --data BIN --out FOLDER --to": COMPRESSES,
        "cp my.model": f"{GUIDES}::test_sentencepiece_of_ones_own",
    },
    "docs/decoding.md": {
        "pet-fairseq translate": f"{TRANSLATES}::test_every_form_of_a_student",
        "fairseq-generate": "tests/cli/test_decoding.py::test_generates_what_fairseq_does",
        "pet-fairseq export student/checkpoint_best.pt --data BIN --to fairseq": (
            "tests/cli/test_export.py::test_ctranslate2_translates_the_same"
        ),
        "pet-fairseq export student/checkpoint_best.pt --data BIN --to huggingface": HUGGING_FACE,
        "from transformers import": HUGGING_FACE,
        "pet-fairseq export student/checkpoint_best.pt --data BIN --to onnx": (
            "tests/export/test_onnx.py::test_raw_text"
        ),
        "from pet_fairseq.predict.onnx_model": "tests/export/test_onnx.py::test_raw_text",
        "import pet_fairseq": "tests/cli/test_hub.py::test_says_what_interactive_says",
    },
    "docs/text.md": {
        "pet-fairseq translate-corpus teacher": (
            "tests/cli/test_corpus.py::test_pairs_are_the_lines_of_translate"
        ),
        "pet-fairseq translate-corpus engine": (
            "tests/cli/test_corpus.py::test_jobs_and_shares_make_the_same_shards"
        ),
    },
    "docs/multilingual.md": {
        "pet-fairseq bilingual": MULTILINGUAL,
        "pet-fairseq import-hf": FROM_TRANSFORMERS,
        "for part in": FROM_TRANSFORMERS,
        "fairseq-train de_en": MULTILINGUAL,
        "pet-fairseq translate": MULTILINGUAL,
    },
    "docs/development.md": {"make env": INSTALLS, "make test": "it is what runs the tests"},
    "docs/index.md": {"pet-fairseq compress": COMPRESSES},
    "docs/howto/classifier.md": {
        "pet-fairseq import-hf": f"{GUIDES}::test_a_classifier",
        "for part in": f"{GUIDES}::test_a_classifier",
        "fairseq-train": f"{GUIDES}::test_a_classifier",
        "pet-fairseq new-plugins": f"{GUIDES}::test_a_classifier",
        "pet-fairseq serve bert": IMPORTS,
        "pet-fairseq serve plugins2": SERVES,
        "$ curl": IMPORTS,
    },
    "docs/howto/ctranslate2.md": {
        "pet-fairseq translate": f"{TRANSLATES}::test_sub_words_of_an_engine",
        "pet-fairseq export": "tests/cli/test_export.py::test_ctranslate2_translates_the_same",
        "import ctranslate2": f"{RUNS_PYTHON}::test_sentencepiece_around_ctranslate2",
        "import codecs": f"{RUNS_PYTHON}::test_moses_and_bpe_around_ctranslate2",
        "pet-fairseq encode": COMPRESSES,
    },
    "docs/howto/marian.md": {
        "pet-fairseq compress": f"{COMPRESSES.partition('::')[0]}::test_a_student_for_marian",
        "pet-fairseq export": "tests/export/test_marian.py::test_binary_file",
        "npm install": INSTALLS,
    },
    "docs/howto/deploy.md": {
        "pet-fairseq demo-teacher": "tests/cli/test_demo.py::test_the_demo",
        "pet-fairseq export": "tests/export/test_onnx.py::test_raw_text",
        'echo "Tom ei halua mennä kouluun." | python3': (
            "tests/export/test_ctranslate2.py::test_the_script_of_a_folder_translates_the_same"
        ),
        "git clone --recursive": "needs the sources of CTranslate2",
        "from transformers import": HUGGING_FACE,
        'echo "Tom ei halua mennä kouluun." | pet-fairseq translate small/onnx': (
            "tests/export/test_onnx.py::test_raw_text"
        ),
        "from pet_fairseq.predict.onnx_model": "tests/export/test_onnx.py::test_raw_text",
        'echo "Tom ei halua mennä kouluun." | pet-fairseq translate small/marian': (
            "tests/export/test_marian.py::test_translate_opens_the_folder"
        ),
    },
    "docs/howto/long_prompts.md": {
        "pet-fairseq prompts": f"{GUIDES}::test_long_prompts",
        "fairseq-train BIN/lm": f"{GUIDES}::test_long_prompts",
        "fairseq-train BIN --user-dir": f"{GUIDES}::test_long_prompts",
        "pet-fairseq choose": f"{GUIDES}::test_long_prompts",
        "fairseq-generate": f"{GUIDES}::test_long_prompts",
    },
    "docs/howto/opus_mt.md": {
        "pet-fairseq compress opus --train-pair": f"{GUIDES}::test_an_opus_mt_teacher",
        "pet-fairseq compress opus --text": (
            f"{GUIDES}::test_an_opus_mt_teacher_of_monolingual_text"
        ),
        "pet-fairseq compress small/trimmed": f"{GUIDES}::test_an_opus_mt_teacher",
    },
    "docs/howto/ctranslate2_teacher.md": {
        "pet-fairseq compress": f"{GUIDES}::test_a_teacher_in_ctranslate2",
        "pet-fairseq translate": f"{GUIDES}::test_a_teacher_in_ctranslate2",
    },
    "docs/howto/nllb.md": {
        "pet-fairseq compress": f"{GUIDES}::test_a_teacher_of_many_languages",
        "pet-fairseq translate": f"{GUIDES}::test_a_teacher_of_many_languages",
    },
    "docs/howto/fairseq_multilingual.md": {
        "pet-fairseq compress": "tests/cli/test_multilingual.py::test_the_guide",
        "pet-fairseq translate": "tests/cli/test_multilingual.py::test_the_guide",
    },
    "docs/howto/own_teacher.md": {". .venv/bin/activate": COMPRESSES},
    "docs/howto/own_text.md": {
        "make env": INSTALLS,
        "examples/own_data/prepare.sh": (
            "tests/cli/test_own_data.py::test_splits_off_what_is_missing"
        ),
        "pet-fairseq recipe": (
            "tests/cli/test_own_data.py::"
            "test_the_command_of_the_guide_and_run_sh_train_teacher_and_student"
        ),
        "echo": "tests/cli/test_decoding.py::test_interactive",
    },
    "docs/howto/several_gpus.md": {"fairseq-train": GPUS, "torchrun": GPUS},
    "docs/install.md": {"make env": INSTALLS, "pip install": INSTALLS},
    "docs/papers.md": {". .venv/bin/activate": MINUTES},
    "docs/pet.md": {
        "fairseq-train BIN --user-dir": (
            "tests/cli/test_simplified_task.py::test_distillation_goes_on_from_the_warm_up"
        ),
        "fairseq-train BIN ...": (
            "tests/cli/test_sample_heads.py::test_fine_tuning_and_generation_through_fairseq"
        ),
    },
    "docs/pretrained.md": {
        "pet-fairseq encode": "tests/predict/test_imported.py::test_as_a_user_types_it",
        "$ cat reviews": PREDICTS,
        "import pet_fairseq": PREDICTS,
        "pip download": DOWNLOADS,
        "pet-fairseq translate": "tests/cli/test_pretrained.py::test_a_t5",
        "for part in": f"{GUIDES}::test_a_teacher_that_summarises",
        "pet-fairseq compress bart": f"{GUIDES}::test_a_teacher_that_summarises",
    },
    "docs/quantisation.md": {
        "fairseq-train": f"{GUIDES}::test_few_bits_a_weight",
        "pet-fairseq export": f"{GUIDES}::test_few_bits_a_weight",
    },
    "docs/selfcp.md": {
        "fairseq-train BIN --user-dir": "tests/cli/test_selfcp.py::test_training",
        "fairseq-train BIN ...": "tests/cli/test_selfcp.py::test_low_rank_updates",
        "for part in train valid": f"{GUIDES}::test_pre_training_as_icaes",
    },
    "docs/selfcp_data.md": {
        "pet-fairseq import-hf SmolLM2-135M-Instruct": (
            "tests/cli/test_selfcp_commands.py::test_a_language_model_of_hugging_face"
        ),
        "pet-fairseq prompts": (
            "tests/cli/test_prompts.py::test_another_data_set_for_the_same_model"
        ),
    },
    "docs/serve.md": {"pet-fairseq serve": SERVES, "$ curl": SERVES},
    "docs/start.md": {
        "git clone ADDRESS": INSTALLS,
        "make demo": SHIPPED,
        "pet-fairseq demo-teacher": SHIPPED,
        "python -m http.server": "serves a page until it is stopped",
        'echo "Tom piti sanansa." | pet-fairseq translate': SHIPPED,
        'echo "Tom piti sanansa." | fairseq-interactive': (
            "tests/cli/test_decoding.py::test_interactive"
        ),
        "import pet_fairseq": "tests/cli/test_hub.py::test_says_what_interactive_says",
        "pet-fairseq recipe demo": MINUTES,
    },
    "docs/variator.md": {
        "fairseq-train BIN --user-dir pet_fairseq --arch": (
            "tests/cli/test_variator.py::test_generation_and_switching"
        ),
        "pet-fairseq import-hf flan-t5-base": "tests/cli/test_low_rank.py::test_a_t5",
        "fairseq-train RAW": (
            "tests/cli/test_variator.py::test_plugins_are_moved_to_another_backbone"
        ),
        "fairseq-train BIN --user-dir pet_fairseq --task": (
            "tests/cli/test_variator_language_model.py::test_compressed_prompts_are_answered"
        ),
    },
}
