from pathlib import Path

from setuptools import find_packages, setup

# What fairseq needs, but for torchaudio, which nothing here uses and which breaks transformers
# where its build does not fit torch's. fairseq itself is installed without its dependencies
# (docs/install.md): required here, it would bring that torchaudio.
FAIRSEQ = [
    "bitarray>=2.9,<4",
    "cffi>=1.16,<3",
    "hydra-core==1.3.2",
    "omegaconf==2.3.0",
    "packaging>=23",
    "regex>=2023.12.25",
    "scikit-learn>=1.3,<2",
]
SERVE = [
    "aiohttp>=3.14.5,<4",  # earlier ones keep connections that never send a request
    "prometheus_client>=0.22,<1",  # earlier ones have no name for the text format of Prometheus
]
ROUGE = ["rouge-score>=0.1.2,<0.2", "nltk>=3.6", "regex"]  # nltk: its stemmer, as rouge-score
WER = ["rapidfuzz>=3.6,<4"]
HF = ["safetensors>=0.5,<1", "tokenizers>=0.21,<1"]
GGUF = ["gguf>=0.10,<1"]
TRANSFORMERS = ["transformers>=4.48,<6"]  # for tests only, which compare with it
CTRANSLATE2 = ["ctranslate2>=4.5,<5"]
# onnxscript: torch's exporter needs it
ONNX = ["onnx>=1.17,<2", "onnxruntime>=1.20,<2", "onnxscript>=0.5,<1"]
COMET = ["unbabel-comet>=2.2,<3"]  # not in dev: it wants numpy below 2, and no newest Python
ZST = ["zstandard>=0.22,<1"]

setup(
    name="pet-fairseq",
    version="0.3.0",
    description=(
        "Knowledge distillation for fairseq, OPUS-MT, NLLB, M2M-100 and mBART: a small translation "
        "model for CTranslate2, Hugging Face, ONNX Runtime, the browser and Firefox's engine"
    ),
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="pet_fairseq contributors",
    license="MIT",
    license_files=["LICENSE"],
    keywords=[
        "fairseq",
        "knowledge distillation",
        "model compression",
        "machine translation",
        "OPUS-MT",
        "NLLB",
        "M2M-100",
        "mBART",
        "CTranslate2",
        "ONNX",
        "Hugging Face",
        "browser",
        "Transformer",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
    packages=find_packages(include=["pet_fairseq", "pet_fairseq.*"]),
    package_data={
        "pet_fairseq.demo": ["*.xz", "*.md", "*.packed", "*.model"],
        "pet_fairseq.predict": ["*.cjs"],
        "pet_fairseq.recipes.translation": ["*.yaml"],
    },
    python_requires=">=3.10,<3.15",
    install_requires=[
        *FAIRSEQ,
        "torch>=2.6,<2.16",
        "PyYAML>=6,<7",
        "jinja2>=3",  # for chat templates; torch brings it along
        "protobuf>=3.20",  # to restrict SentencePiece models; tensorboardX brings it along
        "numpy>=1.26,<2.6",  # numpy_compatibility.py has what fairseq misses in the newest
        "scipy>=1.10,<2",  # confidence intervals; scikit-learn brings it along
        "sacrebleu>=2.4,<3",
        "sacremoses>=0.1.1,<0.3",
        "sentencepiece>=0.2,<0.3",
        "subword-nmt>=0.3.8,<0.4",
        "matplotlib>=3.8,<4",
        "tqdm>=4.60,<5",
        "tensorboardX>=2.6,<3",  # without it every fairseq command asks for it
    ],
    extras_require={
        "serve": SERVE,
        "rouge": ROUGE,
        "wer": WER,
        "hf": HF,
        "bert": HF,  # the name of this extra before
        "gguf": [*HF, *GGUF],
        "transformers": TRANSFORMERS,
        "ctranslate2": CTRANSLATE2,
        "onnx": ONNX,
        "comet": COMET,
        "zst": ZST,
        "dev": [
            *SERVE,
            *ROUGE,
            *WER,
            *HF,
            *GGUF,
            *TRANSFORMERS,
            *CTRANSLATE2,
            *ONNX,
            *ZST,
            "filelock>=3.12,<5",
            "mypy>=2.4,<2.5",
            "packaging>=23",
            "pytest>=8,<10",
            "pytest-xdist>=3.6,<4",
            "ruff>=0.17,<0.18",
        ],
    },
    entry_points={"console_scripts": ["pet-fairseq=pet_fairseq.cli:main"]},
)
