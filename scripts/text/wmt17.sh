# Sourced by the WMT'17 recipes, after common.sh and fetch.sh: from the task's public archives to training data.
#
# Environment: TEXT (preprocessed; or raw), OUT, SRC (en), TGT (the other language), BPE_MERGES (40000), CORPORA (with
#   TEXT=raw, names of the recipe's training corpora, all by default), DOWNLOADS (runs/wmt17/download, for both languages),
#   MIRROR (another URL), EXPECTED (scripts/text/fetch.sh), STAGES="raw tokenise clean segment binarise", DRY_RUN=1
#
# TEXT=preprocessed is what PET's thesis takes (section 4.1.1): the task's own preprocessed text, Moses tokens with true
#   case, then the rule of IWSLT'14: lower case, training pairs of 1 to 175 tokens, length ratio up to 1.5. It has no test
#   set: newstest2017 is tokenised here. The public folder lists neither sizes nor checksums; the least numbers of pairs
#   are what the thesis counts after cleaning (Table 3; its 10.80M pairs of Finnish, 5 tokens each, must be 1.80M).
# TEXT=raw starts from the task's archives. As fairseq's WMT script does, training pairs are cleaned after BPE: 1 to 250
#   pieces, length ratio up to 1.5; on words that ratio drops much of the data: Finnish says with 20 words what English
#   says with 30. The md5 sums of the archives are those that sacreBLEU (dev.tgz, test.tgz) and Sockeye's autopilot
#   publish, sizes and sha256 sums those of TensorFlow Datasets. We had no copies to compare them with.
# 40,000 joint merges, as in fairseq's WMT script: with fewer the thesis's 39,390 Latvian words (Table 3) are not possible.
wmt17_url=${MIRROR:-https://data.statmt.org/wmt17/translation-task}
wmt17_downloads=${DOWNLOADS:-$ROOT/runs/wmt17/download}

# wmt17 OTHER VALID LINES LINES LEAST CORPUS...: the whole preparation
#   OTHER   the language beside English
#   VALID   name of the validation set; then the lines of it and of newstest2017
#   LEAST   the fewest training pairs that the preprocessed text may have
#   CORPUS  "NAME ARCHIVE BYTES CHECKSUM PREFIX LEAST": PREFIX.en and PREFIX.OTHER in the archive, at least LEAST lines
wmt17() {
  local other=$1 valid=$2 valid_lines=$3 test_lines=$4 least=$5
  local new unpacked out=${OUT:-$ROOT/runs/wmt17_en_$other/data} rule from
  shift 5
  new=$out/raw.tmp unpacked=$out/unpacked
  case ${TEXT:-preprocessed} in
    preprocessed) rule=(TOKENISED="train valid" MAX_TOKENS=175) from=preprocessed ;;
    raw) rule=(MAX_PIECES=250) from=$(wmt17_corpora "$@") ;;
    *) die "TEXT=$TEXT: give preprocessed or raw" ;;
  esac
  check_settings "$out" raw/made_from "$from"
  stage raw "$out/raw" wmt17_raw "$@"
  env LOWERCASE=1 "${rule[@]}" \
    "$ROOT/scripts/text/preprocess.sh" "$out/raw" "${SRC:-en}" "${TGT:-$other}" "${BPE_MERGES:-40000}" "$out"
}

# wmt17_corpora CORPUS...: the names that CORPORA chooses, all by default, in the recipe's order
wmt17_corpora() {
  local name names=("${@%% *}") chosen=()
  for name in ${CORPORA:-}; do
    [[ " ${names[*]} " == *" $name "* ]] || die "CORPORA: there is no '$name'; give some of ${names[*]}"
  done
  for name in "${names[@]}"; do
    [[ " ${CORPORA:-$name} " != *" $name "* ]] || chosen+=("$name")
  done
  echo "${chosen[*]}"
}

# wmt17_raw CORPUS...: the three sets in OUT/raw; like what it calls it reads the variables of wmt17
wmt17_raw() {
  run rm -rf "$new" "$unpacked"
  run mkdir -p "$new"
  if [ "${TEXT:-preprocessed}" = raw ]; then
    wmt17_from_archives "$@"
  else
    wmt17_preprocessed
  fi
  wmt17_news test.tgz 86a1724c276004aa25455ae2a04cef26 test/newstest2017 test "$test_lines"
  run rm -rf "$unpacked"
  write "$new/made_from" echo "$from"
  run mv "$new" "$out/raw"
}

# training and validation set as the task preprocessed them
wmt17_preprocessed() {
  local folder=preprocessed/$other-en lang
  for lang in en "$other"; do
    fetch "$wmt17_url/$folder/corpus.tc.$lang.gz" "$wmt17_downloads/$folder/corpus.tc.$lang.gz"
    write "$new/train.$lang" gunzip -c "$wmt17_downloads/$folder/corpus.tc.$lang.gz"
  done
  check_pair corpus "$new/train.en" "$new/train.$other" "$least"
  fetch "$wmt17_url/$folder/dev.tgz" "$wmt17_downloads/$folder/dev.tgz"
  unpack "$wmt17_downloads/$folder/dev.tgz" "$unpacked"
  for lang in en "$other"; do
    write "$new/valid.$lang" cat "$unpacked/$valid.tc.$lang"
    check_text "valid.$lang" "$new/valid.$lang" "$valid_lines"
  done
}

# the same from the archives of the training corpora and of the news sets
wmt17_from_archives() {
  local chosen=() row lang name archive bytes sum prefix least
  for row in "$@"; do
    read -r name archive bytes sum prefix least <<<"$row"
    [[ " $from " == *" $name "* ]] || continue
    fetch "$wmt17_url/$archive" "$wmt17_downloads/$archive" "$bytes" "$sum"
    unpack "$wmt17_downloads/$archive" "$unpacked" "$prefix.en" "$prefix.$other"
    check_pair "$name" "$unpacked/$prefix.en" "$unpacked/$prefix.$other" "$least"
    chosen+=("$unpacked/$prefix")
  done
  for lang in en "$other"; do
    write "$new/train.$lang" sed 's/\r//g' "${chosen[@]/%/.$lang}"
  done
  wmt17_news dev.tgz 9b1aa63c1cf49dccdd20b962fe313989 "dev/$valid" valid "$valid_lines"
}

# wmt17_news ARCHIVE MD5 SET SPLIT LINES: both sides of a news set
wmt17_news() {
  local archive=$wmt17_downloads/$1 source=$3-en$other-src.en.sgm reference=$3-en$other-ref.$other.sgm
  fetch "$wmt17_url/$1" "$archive" - "$2"
  unpack "$archive" "$unpacked" "$source" "$reference"
  segments "$new/$4.en" "$unpacked/$source"
  segments "$new/$4.$other" "$unpacked/$reference"
  check_text "$4.en" "$new/$4.en" "$5"
  check_text "$4.$other" "$new/$4.$other" "$5"
}
