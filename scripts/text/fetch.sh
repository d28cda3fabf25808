# Sourced by the prepare.sh recipes, after common.sh: fetches public files, checks and unpacks them.
#
# FROM=FOLDER  files are copied from this folder; empty: they are downloaded. An interrupted download is continued.
# EXPECTED=FILE (environment) replaces or adds what a recipe knows of its files. Lines "NAME SIZE [CHECKSUM]":
#   SIZE is in bytes for a fetched file, in lines for a text; CHECKSUM is md5 or sha256; - stands for unknown.
[ -z "${EXPECTED:-}" ] || [ -f "$EXPECTED" ] || die "EXPECTED=$EXPECTED: no such file"
[ -z "${FROM:-}" ] || [ -d "$FROM" ] || die "$FROM: no such folder"

not_right="; not the right file: remove it from the downloads and call again"

# expected NAME SIZE CHECKSUM: the last two, or what the file EXPECTED says instead
expected() {
  awk -v name="$1" -v known="$2 $3" '$1 == name { known = $2 " " (NF > 2 ? $3 : "-") } END { print known }' \
    "${EXPECTED:-/dev/null}"
}

# checksum FILE SUM: the md5 or sha256 of FILE, whichever SUM is
checksum() {
  case ${#2} in
    32) md5sum "$1" | cut -d ' ' -f 1 ;;
    64) sha256sum "$1" | cut -d ' ' -f 1 ;;
    *) echo "none, as '$2' is neither md5 nor sha256" ;;
  esac
}

# is_whole FILE NAME: whether an archive of that name can be read to its end
is_whole() {
  case $2 in
    *.gz | *.tgz) gzip -t <"$1" ;;
    *.zip) python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip())' "$1" ;;
  esac 2>/dev/null
}

# fault FILE NAME BYTES CHECKSUM: what is wrong with a fetched file; nothing if it is as expected
fault() {
  local size
  size=$(wc -c <"$1")
  if [ "$3" != - ] && [ "$size" != "$3" ]; then
    echo "$size bytes, expected $3"
  elif [ "$4" != - ] && [ "$(checksum "$1" "$4")" != "$4" ]; then
    echo "checksum $(checksum "$1" "$4"), expected $4"
  elif ! is_whole "$1" "$2"; then
    echo "damaged or cut short"
  fi
}

# download URL FILE
download() {
  local status=0 quiet=()
  [ -t 2 ] || quiet=(-s)
  run curl "${quiet[@]}" -fL --retry 3 -C - -o "$2" "$1" || status=$?
  case $status in
    0) return 0 ;;
    22 | 33 | 36) rm -f "$2" ;; # what is there cannot be continued: the next call starts anew
  esac
  die "$1: download failed (curl: $status); call again to go on, or give a local folder with $(basename "$1")"
}

# fetch URL FILE [BYTES [CHECKSUM]]: get FILE from the folder FROM or from URL, and check it before it
# gets its name; an intact file that is there already is kept. Users can add sizes and checksums with EXPECTED.
fetch() {
  local url=$1 file=$2 name size sum wrong
  name=$(basename "$file")
  read -r size sum < <(expected "$name" "${3:--}" "${4:--}")
  [ -z "${FROM:-}" ] || [ -f "$FROM/$name" ] || die "$FROM/$name: no such file"
  if [ -f "$file" ] && { [ -z "${FROM:-}" ] || cmp -s "$FROM/$name" "$file"; }; then
    wrong=$(fault "$file" "$name" "$size" "$sum")
    [ -n "$wrong" ] || return 0
    [ ! "${FROM:-}/$name" -ef "$file" ] || die "$file: $wrong; replace it"
  fi
  [ ! -f "$file" ] || run rm -f "$file"
  run mkdir -p "$(dirname "$file")"
  if [ -n "${FROM:-}" ]; then
    run cp "$FROM/$name" "$file.part"
  else
    download "$url" "$file.part"
  fi
  [ "${DRY_RUN:-0}" != 1 ] || return 0
  wrong=$(fault "$file.part" "$name" "$size" "$sum")
  if [ -n "$wrong" ]; then
    rm -f "$file.part"
    die "${FROM:-${url%/*}}/$name: $wrong; fetch it again"
  fi
  mv "$file.part" "$file"
}

# unpack ARCHIVE FOLDER [MEMBER...]: all of it, or these files
unpack() {
  local archive=$1 folder=$2
  shift 2
  run mkdir -p "$folder"
  run tar -xzf "$archive" -C "$folder" "$@" 2>/dev/null ||
    die "$archive: cannot unpack ${*:-it}${*:+ from it}; is it the right archive?"
}

# segments OUTPUT [-e SED] FILE...: the plain text of .xml and .sgm files, one segment a line
segments() {
  local output=$1
  shift
  write "$output" sed -e '/<seg id/!d' -e 's/\r//g' -e 's/.*<seg id="[^"]*">[[:space:]]*//' \
    -e 's/[[:space:]]*<\/seg>.*//' "$@"
}

# check_text NAME FILE LINES [CHECKSUM]: stop unless the text is as expected
check_text() {
  local lines sum number
  [ "${DRY_RUN:-0}" != 1 ] || return 0
  read -r lines sum < <(expected "$1" "$3" "${4:--}")
  number=$(count_lines "$2")
  [ "$lines" = - ] || [ "$number" = "$lines" ] || die "$1: $number lines, expected $lines$not_right"
  [ "$sum" = - ] || [ "$(checksum "$2" "$sum")" = "$sum" ] ||
    die "$1: checksum of the text $(checksum "$2" "$sum"), expected $sum$not_right"
}

# check_pair NAME A B LEAST: stop unless both sides have the same number of lines, and at least so many
check_pair() {
  local least number _
  [ "${DRY_RUN:-0}" != 1 ] || return 0
  same_lines "$2" "$3"
  read -r least _ < <(expected "$1" "$4" -)
  number=$(count_lines "$2")
  [ "$number" -ge "$least" ] || die "$1: $number pairs, expected at least $least$not_right"
}
