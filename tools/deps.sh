#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install the named Debian packages that are missing; silent when there are none.
set -eu

missing=
if ! command -v dpkg-query >/dev/null; then
    echo "deps: not a Debian system; this needs the equivalents of: $*" >&2
    exit 0
fi
for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo=sudo
else
    echo "deps: missing Debian packages, and no root to install them. Run:" >&2
    echo "    apt-get install$missing" >&2
    exit 1
fi
echo "deps: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
install() {
    # shellcheck disable=SC2086 # a list of words
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing \
        >/dev/null
}
# Package lists may be absent or old: fetch them when the first try fails.
install 2>/dev/null || { $sudo apt-get update -q >/dev/null && install; }
