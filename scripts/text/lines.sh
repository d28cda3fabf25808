#!/usr/bin/env bash
# The text of fairseq-generate's lines of one kind, in the order of the data set, BPE and all.
#
# Usage: lines.sh OUTPUT KIND     KIND: S (source), T (target) or H (best hypothesis)
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
[ $# = 2 ] || die "usage: lines.sh OUTPUT KIND"
case $2 in
  S | T) field=2 ;;
  H) field=3 ;;
  *) die "$2: give S, T or H" ;;
esac
grep "^$2-" "$1" | sort -t- -k2 -n | cut -f"$field"
