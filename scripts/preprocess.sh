#!/usr/bin/env bash
# Raw parallel text -> Moses tokens -> joint BPE -> fairseq's binary format.
#
# Usage: preprocess.sh RAW SRC TGT MERGES OUT
#   RAW     folder with train.SRC train.TGT valid.SRC valid.TGT test.SRC test.TGT
#   MERGES  number of joint BPE merges
#   OUT     gets tok/, bpe/, bpe.codes and bin/
#
# Tokenises as `fairseq-interactive --tokenizer moses --bpe subword_nmt` does, so both see the same tokens.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# = 5 ] || die "usage: preprocess.sh RAW SRC TGT MERGES OUT"
raw=$1 src=$2 tgt=$3 merges=$4 out=$5
for split in train valid test; do
  for lang in "$src" "$tgt"; do
    [ -f "$raw/$split.$lang" ] || die "$raw/$split.$lang: no such file"
  done
  [ "$(wc -l <"$raw/$split.$src")" = "$(wc -l <"$raw/$split.$tgt")" ] ||
    die "$raw/$split.$src and $raw/$split.$tgt differ in their number of lines"
done

# write FILE COMMAND...: the command's output, under the final name only when it is complete
write() {
  local file=$1
  shift
  "$@" >"$file.tmp" || die "failed: $* (for $file)"
  mv "$file.tmp" "$file"
}

tokenise() {
  mkdir -p "$out/tok"
  for lang in "$src" "$tgt"; do
    for split in train valid test; do
      write "$out/tok/$split.$lang" sacremoses -q -l "$lang" -j 2 tokenize -a -x <"$raw/$split.$lang"
    done
  done
  touch "$out/tok/done"
}

segment() {
  mkdir -p "$out/bpe"
  write "$out/bpe.codes" subword-nmt learn-bpe -s "$merges" \
    < <(cat "$out/tok/train.$src" "$out/tok/train.$tgt") 2>"$out/bpe/learn.log"
  for lang in "$src" "$tgt"; do
    for split in train valid test; do
      write "$out/bpe/$split.$lang" subword-nmt apply-bpe -c "$out/bpe.codes" <"$out/tok/$split.$lang"
    done
  done
  touch "$out/bpe/done"
}

binarise() {
  rm -rf "$out/bin.tmp"
  fairseq-preprocess --source-lang "$src" --target-lang "$tgt" --trainpref "$out/bpe/train" \
    --validpref "$out/bpe/valid" --testpref "$out/bpe/test" --destdir "$out/bin.tmp" --workers 2
  mv "$out/bin.tmp" "$out/bin"
}

stage tokenise "$out/tok/done" run tokenise
stage segment "$out/bpe/done" run segment
stage binarise "$out/bin" run binarise
