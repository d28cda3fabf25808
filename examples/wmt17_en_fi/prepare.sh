#!/usr/bin/env bash
# WMT'17 English-Finnish news: the task's preprocessed training text, newstest2016 for validation, newstest2017 for
# testing. TEXT=raw: from Europarl v8 and the EU press releases (the task's list of Wikipedia titles is left out).
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with corpus.tc.en.gz, corpus.tc.fi.gz, dev.tgz (these from preprocessed/fi-en) and test.tgz; with TEXT=raw
#           training-parallel-ep-v8.tgz, rapid2016.tgz, dev.tgz and test.tgz; without it they are downloaded from
#           https://data.statmt.org/wmt17/translation-task
# Environment: OUT (runs/wmt17_en_fi/data), TEXT=preprocessed, CORPORA="europarl rapid" and what scripts/text/wmt17.sh lists
#
# Exact: 3,000 validation and 3,002 test pairs (TensorFlow Datasets). The training corpora have to reach a minimum:
# TensorFlow Datasets counts 2,656,542 pairs in both and in the titles.
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
. "$ROOT/scripts/text/wmt17.sh"
wmt17 fi newstest2016 3000 3002 1800000 \
  "europarl training-parallel-ep-v8.tgz - 07b77f254d189a5bfb7b43b7fc489716 training/europarl-v8.fi-en 1900000" \
  "rapid rapid2016.tgz - 17a3a1846433ad26acb95da02f93af93 rapid2016.en-fi 500000"
