#!/usr/bin/env bash
# WMT'17 English-Latvian news: the task's preprocessed training text, newsdev2017 for validation, newstest2017 for
# testing. TEXT=raw: from Europarl v8, EU press releases, LETA news, the European Parliament's documents and one book.
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with corpus.tc.en.gz, corpus.tc.lv.gz, dev.tgz (these from preprocessed/lv-en) and test.tgz; with TEXT=raw
#           training-parallel-ep-v8.tgz, rapid2016.tgz, leta.v1.tgz, dcep.lv-en.v1.tgz, books.lv-en.v1.tgz, dev.tgz and
#           test.tgz; without it they are downloaded from https://data.statmt.org/wmt17/translation-task
# Environment: OUT (runs/wmt17_en_lv/data), TEXT=preprocessed, CORPORA="europarl rapid leta dcep books" and what
#   scripts/text/wmt17.sh lists
#
# Exact: 2,003 validation and 2,001 test pairs (TensorFlow Datasets). The training corpora have to reach a minimum:
# TensorFlow Datasets counts 3,567,528 pairs in the last three.
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
. "$ROOT/scripts/text/wmt17.sh"
wmt17 lv newsdev2017 2003 2001 3900000 \
  "europarl training-parallel-ep-v8.tgz - 07b77f254d189a5bfb7b43b7fc489716 training/europarl-v8.lv-en 600000" \
  "rapid rapid2016.tgz - 17a3a1846433ad26acb95da02f93af93 rapid2016.en-lv 200000" \
  "leta leta.v1.tgz 2024531 af3f1a4cbeb503a231856baa9f1fb06c628d43ebb78b6f35a4f71e0a53f60e49 LETA-lv-en/leta 15000" \
  "dcep dcep.lv-en.v1.tgz 128549702 871df6e7c96dc878f73a3864a8a2300c1c43725b3d24a7fdb560735e584bf515 dcep.en-lv/dcep 3500000" \
  "books books.lv-en.v1.tgz 316169 0eb70ad3e8420b131ddd29d1988d1055c72c13cef3768975a1c1a8f7662f361b farewell/farewell 9000"
