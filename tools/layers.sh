#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The rules of the house that a machine can see. Fails with one line for each breach.
#   rooms      server → api → storage → config: an include goes down, never up
#   libraries  each third-party header is included only where its wrapper lives
#   sizes      functions of at most 70 lines, files of at most 1000
#   licence    every source file begins with its SPDX line
set -eu
cd "${1:-$(dirname "$0")/..}"

breaches=$(mktemp)
trap 'rm -f "$breaches"' EXIT

# Room of the file, then the rooms it may include.
rooms() {
    files=$(find "$1" -name '*.[ch]' 2>/dev/null) || true
    [ -n "$files" ] || return 0
    # shellcheck disable=SC2086 # no blanks in our file names
    grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' $files /dev/null |
        grep -vE "#[[:space:]]*include[[:space:]]+\"($2)/" |
        sed 's/$/   -- wrong room/' >>"$breaches" || true
}
rooms config 'config'
rooms storage 'storage|config'
rooms api 'api|storage|config'
rooms server 'server|api|storage|config'

# Header, then the only files that may include it.
library() {
    grep -rnE "#[[:space:]]*include[[:space:]]+[<\"]$1" --include='*.[ch]' \
        config storage api server tools 2>/dev/null | grep -vE "^($2):" |
        sed 's/$/   -- only in its wrapper/' >>"$breaches" || true
}
library 'microhttpd\.h' 'server/http\.c|tools/bench/.*'
library 'lmdb\.h' 'storage/catalog[a-z_]*\.[ch]'
library '(zstd[a-z_]*|zdict)\.h' 'storage/(codec|dict)\.c|tools/bench/.*'
library 'lz4[a-z]*\.h' 'storage/(codec|dict)\.c|tools/bench/.*'
library 'zlib\.h' 'storage/codec\.c|api/gzip\.c|tools/bench/.*'
library '(cjson/)?cJSON\.h' 'api/[a-z_]*\.[ch]|tests/.*'
library 'curl/.*\.h' 'api/remote\.c'
library 'yaml\.h' 'config/[a-z_]*\.c'
library 'gnutls/.*\.h' 'api/secret\.c|server/tls\.c'
library 'crypt\.h' 'config/users\.c'

# What api/ may see of the engine: its front and value types, not its parts.
grep -nE '#[[:space:]]*include[[:space:]]+"storage/(wal|segment|catalog|cache|io)\.h"' \
    api/*.[ch] /dev/null 2>/dev/null | sed 's/$/   -- the engine behind store.h/' >>"$breaches" || true

sources=$(find config storage api server tools tests -name '*.[ch]' 2>/dev/null | sort)
[ -n "$sources" ] || exit 0
# A function begins at a line "{" in column 1 and ends at "}" in column 1 (Linux braces). Tables and
# structs open their brace at the end of a line and are not counted.
# shellcheck disable=SC2086
awk '
    FNR == 1 {
        if ($0 !~ /SPDX-License-Identifier: Apache-2\.0/)
            print FILENAME ":1: no SPDX line first   -- licence"
        start = 0
    }
    /^\{/ { start = FNR }
    /^\}/ {
        if (start && FNR - start > 71)
            print FILENAME ":" start ": function of " FNR - start - 1 " lines   -- more than 70"
        start = 0
    }
    FNR == 1001 { print FILENAME ": more than 1000 lines" }
' $sources >>"$breaches"
for f in $(find tools tests .ci -name '*.sh' -o -name '*.py' -o -path .ci/run) Makefile; do
    head -n 2 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
        echo "$f:1: no SPDX line   -- licence" >>"$breaches"
done

if [ -s "$breaches" ]; then
    cat "$breaches"
    exit 1
fi
