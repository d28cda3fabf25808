#!/usr/bin/env bash
# Movie reviews (Pang and Lee, 2004, polarity data set v2.0) as prompts that ask whether a review is positive or negative.
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with movie_reviews.zip; without it that is downloaded from NLTK's data on
#           https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora
# Environment: OUT (runs/movie_reviews/data), SPM (a SentencePiece model; without it one is trained), VOCAB_SIZE (8000),
#   TEXT=FILE[:FILE...] (more text for the language model, a paragraph a line), MIRROR (another URL), EXPECTED
#   (scripts/text/fetch.sh), STAGES="raw binarise", DRY_RUN=1
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
. "$ROOT/scripts/text/prompts.sh"
url=${MIRROR:-https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora}
out=${OUT:-$ROOT/runs/movie_reviews/data}

raw() {
  local new=$out/raw.tmp archive=$out/download/movie_reviews.zip
  fetch "$url/movie_reviews.zip" "$archive" 4004848 a41211ae685019137410268134db6a1a14428c89b671eb83056151a878539008
  run rm -rf "$new"
  run python3 "$ROOT/examples/movie_reviews/records.py" "$archive" "$new"
  run mv "$new" "$out/raw"
}

prompts_stages "$out" train valid test
