#!/usr/bin/env bash
# A task of GLUE, or one of your own, in two forms: as a question and its answer for an encoder-decoder, and as sentences with a class for an
# encoder; with RAW_TEXT also plain text with the same dictionary to pre-train either of them on.
#
# Usage: prepare.sh TASK [FOLDER]
#   TASK    mnli, qnli, qqp, rte, sst2, mrpc or cola; or own, whose tables have the columns sentence, or sentence1 and sentence2,
#           and label
#   FOLDER  with GLUE's archive of the task, or the tables train.tsv, dev.tsv (mnli: dev_matched.tsv) and maybe a test.tsv
#           with labels, all of them or none gzipped; for rte also rte.zip with the XML of RTE-1 to 3; for mrpc also
#           msr_paraphrase_train.txt with mrpc_dev_ids.tsv or msr_paraphrase_test.txt; for cola also the authors'
#           cola_public_1.1.zip or cola_public.zip. Without it the task is downloaded from https://dl.fbaipublicfiles.com
# Environment: OUT (runs/glue/TASK/data), BPE_MERGES (8000), RAW_TEXT and WORKERS (scripts/text/preprocess_task.sh), MIRROR
#   (another URL), EXPECTED (scripts/text/fetch.sh),
#   STAGES="raw tokenise segment dictionary text classes raw_text", DRY_RUN=1
#
# Sizes and sha256 sums are those that Hugging Face's datasets library publishes. We had no copies to compare them with.
task=${1:-} FROM=${2:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
glue=https://dl.fbaipublicfiles.com/glue/data
senteval=https://dl.fbaipublicfiles.com/senteval/senteval_data
out=${OUT:-$ROOT/runs/glue/$task/data}
dev=dev inputs=(sentence1 sentence2) others=()

# own_header: the first line of one's own training table
own_header() {
  local table
  for table in "$FROM/train.tsv" "$FROM/train.tsv.gz"; do
    [ ! -f "$table" ] || zcat -f "$table" | sed -n 1p
  done
}

case $task in
  mnli) public=MNLI.zip dev=dev_matched ;;
  qnli) public=QNLIv2.zip ;;
  qqp) public=QQP-clean.zip ;;
  rte) public=RTE.zip others=(rte.zip) ;;
  sst2) public=SST-2.zip inputs=(sentence1) ;;
  mrpc)
    public="msr_paraphrase_train.txt mrpc_dev_ids.tsv"
    others=("msr_paraphrase_train.txt msr_paraphrase_test.txt")
    ;;
  cola) public=CoLA.zip inputs=(sentence1) others=(cola_public_1.1.zip cola_public.zip) ;;
  own)
    [ -n "$FROM" ] || die "TASK own: give the FOLDER with its train.tsv and dev.tsv"
    public="train.tsv dev.tsv test.tsv"
    own_header | grep -qw sentence2 || inputs=(sentence1)
    ;;
  *) die "TASK '$task': give mnli, qnli, qqp, rte, sst2, mrpc or cola, or own" ;;
esac

# source_of NAME: URL, bytes and sha256 of a public file
source_of() {
  case $1 in
    MNLI.zip) echo "$glue" 312783507 e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633 ;;
    QNLIv2.zip) echo "$glue" 10627589 e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5 ;;
    QQP-clean.zip) echo "$glue" 41696084 40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0 ;;
    RTE.zip) echo "$glue" 697150 6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee ;;
    SST-2.zip) echo "$glue" 7439277 d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa ;;
    CoLA.zip) echo "$glue" 376971 f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff ;;
    mrpc_dev_ids.tsv) echo "$glue" 6222 971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7 ;;
    msr_paraphrase_train.txt)
      echo "$senteval" 1047044 60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89
      ;;
    msr_paraphrase_test.txt)
      echo "$senteval" 441275 a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784
      ;;
    *) echo "$glue" - - ;;
  esac
}

# held NAME: which file FROM holds of it: NAME or NAME.gz; without FROM, the one that is downloaded
held() {
  local name
  for name in "$1" "$1.gz"; do
    if [ -z "$FROM" ] || [ -f "$FROM/$name" ]; then
      echo "$name"
      return 0
    fi
  done
  return 1
}

# which files to take: all that are downloaded, or the first of these sets that FROM holds
choose() {
  local sets=("$public" "${others[@]}" "train.tsv $dev.tsv test.tsv" "train.tsv $dev.tsv") set name found
  for set in "${sets[@]}"; do
    files=()
    for name in $set; do
      found=$(held "$name") || continue 2
      files+=("$found")
    done
    return 0
  done
  die "$FROM: has neither $public nor${others[*]/#/ }${others[*]:+,} train.tsv and $dev.tsv (gzipped or not)"
}

raw() {
  local new=$out/raw.tmp files name url size sum
  choose
  for name in "${files[@]}"; do
    read -r url size sum < <(source_of "$name")
    fetch "${MIRROR:-$url}/$name" "$out/download/$name" "$size" "$sum"
  done
  run rm -rf "$new"
  run python3 "$ROOT/examples/glue/formats.py" "$task" "$new" "${files[@]/#/$out/download/}"
  write "$new/files" echo "${files[*]}"
  write "$new/task" echo "$task"
  run mv "$new" "$out/raw"
}

# stop if FROM has other files than those that OUT was made of
check_files() {
  local files name file made
  choose
  if [ -f "$out/raw/files" ]; then # older versions did not write it
    made=$(cat "$out/raw/files")
    [ "${files[*]}" = "$made" ] ||
      die "$FROM: ${files[*]} would be read, but $out was made of $made; give another OUT or" \
        "remove it"
  fi
  for name in "${files[@]}"; do
    file=$out/download/$name
    [ ! -d "$out/download" ] || cmp -s "$FROM/$name" "$file" ||
      die "$FROM/$name: not the file that $out was made of; give another OUT or remove it"
  done
}

[ ! -f "$out/raw/task" ] || [ "$(cat "$out/raw/task")" = "$task" ] ||
  die "$out holds $(cat "$out/raw/task"), not $task; give another OUT"
[ -z "$FROM" ] || [ ! -d "$out/raw" ] || check_files
stage raw "$out/raw" raw
"$ROOT/scripts/text/preprocess_task.sh" "$out/raw" "${BPE_MERGES:-8000}" "$out" "${inputs[@]}"
