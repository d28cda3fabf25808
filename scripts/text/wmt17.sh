# Sourced by the WMT'17 recipes, after common.sh and fetch.sh: from the task's public archives to training data.
#
# Environment: OUT, SRC (en), TGT (the other language), BPE_MERGES (32000), CORPORA (names of the recipe's training
#   corpora, all by default), DOWNLOADS (runs/wmt17/download, for both languages), MIRROR (another URL), EXPECTED
#   (scripts/text/fetch.sh), STAGES="raw tokenise segment binarise", DRY_RUN=1
#
# The md5 sums of the archives are those that sacreBLEU (dev.tgz, test.tgz) and Sockeye's autopilot publish, sizes and
# sha256 sums those of TensorFlow Datasets. We had no copies to compare them with.
# As fairseq's WMT script does, training pairs are cleaned after BPE: 1 to 250 pieces, length ratio up to 1.5.
# Before it that ratio would drop much of the data: Finnish says with 20 words what English says with 30.
wmt17_url=${MIRROR:-https://data.statmt.org/wmt17/translation-task}
wmt17_downloads=${DOWNLOADS:-$ROOT/runs/wmt17/download}

# wmt17 OTHER VALID LINES LINES CORPUS...: the whole preparation
#   OTHER   the language beside English
#   VALID   name of the validation set in dev.tgz; then the lines of it and of newstest2017
#   CORPUS  "NAME ARCHIVE BYTES CHECKSUM PREFIX LEAST": PREFIX.en and PREFIX.OTHER in the archive, at least LEAST lines
wmt17() {
  local other=$1
  out=${OUT:-$ROOT/runs/wmt17_en_$other/data}
  stage raw "$out/raw" wmt17_raw "$@"
  MAX_PIECES=250 "$ROOT/scripts/text/preprocess.sh" "$out/raw" "${SRC:-en}" "${TGT:-$other}" "${BPE_MERGES:-32000}" "$out"
}

wmt17_raw() {
  local other=$1 valid=$2 valid_lines=$3 test_lines=$4 new=$out/raw.tmp unpacked=$out/unpacked chosen=() row lang
  local name archive bytes sum prefix least names
  shift 4
  names=("${@%% *}")
  for name in ${CORPORA:-}; do
    [[ " ${names[*]} " == *" $name "* ]] || die "CORPORA: there is no '$name'; give some of ${names[*]}"
  done
  run rm -rf "$new" "$unpacked"
  run mkdir -p "$new"
  for row in "$@"; do
    read -r name archive bytes sum prefix least <<<"$row"
    [[ " ${CORPORA:-$name} " == *" $name "* ]] || continue
    fetch "$wmt17_url/$archive" "$wmt17_downloads/$archive" "$bytes" "$sum"
    unpack "$wmt17_downloads/$archive" "$unpacked" "$prefix.en" "$prefix.$other"
    check_pair "$name" "$unpacked/$prefix.en" "$unpacked/$prefix.$other" "$least"
    chosen+=("$unpacked/$prefix")
  done
  for lang in en "$other"; do
    write "$new/train.$lang" sed 's/\r//g' "${chosen[@]/%/.$lang}"
  done
  wmt17_news dev.tgz 9b1aa63c1cf49dccdd20b962fe313989 "dev/$valid" valid "$valid_lines"
  wmt17_news test.tgz 86a1724c276004aa25455ae2a04cef26 test/newstest2017 test "$test_lines"
  run rm -rf "$unpacked"
  run mv "$new" "$out/raw"
}

# wmt17_news ARCHIVE MD5 SET SPLIT LINES: both sides of a news set; called by wmt17_raw, whose variables it reads
wmt17_news() {
  local archive=$wmt17_downloads/$1 source=$3-en$other-src.en.sgm reference=$3-en$other-ref.$other.sgm
  fetch "$wmt17_url/$1" "$archive" - "$2"
  unpack "$archive" "$unpacked" "$source" "$reference"
  segments "$new/$4.en" "$unpacked/$source"
  segments "$new/$4.$other" "$unpacked/$reference"
  check_text "$4.en" "$new/$4.en" "$5"
  check_text "$4.$other" "$new/$4.$other" "$5"
}
