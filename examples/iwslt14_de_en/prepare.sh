#!/usr/bin/env bash
# IWSLT'14 German-English (Cettolo et al. 2014), prepared as fairseq's prepare-iwslt14.sh does: Moses tokens whose
# hyphens stay (tokenizer.perl without -a), training pairs of 1 to 175 tokens and a length ratio up to 1.5, lower case,
# every 23rd of those pairs for validation, 10,000 joint BPE merges. README.md says what differs.
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with de-en.tgz; without it the archive is downloaded from fairseq's public copy
# Environment: OUT (runs/iwslt14_de_en/data), SRC (de), TGT (en), BPE_MERGES (10000), DOWNLOADS (OUT/download),
#   MIRROR (another URL), EXPECTED (scripts/text/fetch.sh), STAGES="raw tokenise clean segment binarise", DRY_RUN=1
#
# Checked, as public logs of that script show them: the size of the archive, 174,443 training and 6,750 test pairs. Its
# checksum is not known to us: give one with EXPECTED. After cleaning those logs have 160,239 training and 7,283
# validation pairs.
# The test set is in OUT/raw and, in lower case, as the reference for what the model writes, in OUT/lower.
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
url=${MIRROR:-https://dl.fbaipublicfiles.com/fairseq/data/iwslt14}
out=${OUT:-$ROOT/runs/iwslt14_de_en/data}
archive=${DOWNLOADS:-$out/download}/de-en.tgz

raw() {
  local new=$out/raw.tmp unpacked=$out/unpacked lang set texts tests
  fetch "$url/de-en.tgz" "$archive" 19982877
  run rm -rf "$new" "$unpacked"
  run mkdir -p "$new"
  for lang in de en; do
    texts=de-en/train.tags.de-en.$lang tests=()
    for set in TED.dev2010 TEDX.dev2012 TED.tst2010 TED.tst2011 TED.tst2012; do
      tests+=("de-en/IWSLT14.$set.de-en.$lang.xml")
    done
    unpack "$archive" "$unpacked" "$texts" "${tests[@]}"
    write "$new/train.$lang" sed -e '/<url>/d' -e '/<talkid>/d' -e '/<keywords>/d' \
      -e 's/<\/\?title>//g' -e 's/<\/\?description>//g' -e 's/\r//g' "$unpacked/$texts"
    segments "$new/test.$lang" -e "s/’/'/g" "${tests[@]/#/$unpacked/}"
    check_text "train.$lang" "$new/train.$lang" 174443
    check_text "test.$lang" "$new/test.$lang" 6750
  done
  run rm -rf "$unpacked"
  run mv "$new" "$out/raw"
}

stage raw "$out/raw" raw
NO_DASH_SPLITS=1 MAX_TOKENS=175 LOWERCASE=1 SPLIT_VALID=23 \
  "$ROOT/scripts/text/preprocess.sh" "$out/raw" "${SRC:-de}" "${TGT:-en}" "${BPE_MERGES:-10000}" "$out"
