#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The container image.
#   image.sh build NAME   with docker, podman or buildah, whichever is there
#   image.sh test         with buildah (installed when missing): build it, run it, store a document
# Where images cannot be pulled, the test makes its base from Debian packages (mmdebstrap).
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "skip: $*"
    exit 0
}

build() {
    for tool in docker podman; do
        if command -v $tool >/dev/null; then
            exec $tool build -t "$1" .
        fi
    done
    command -v buildah >/dev/null || { echo "image: needs docker, podman or buildah" >&2; exit 1; }
    exec buildah bud --format docker -t "$1" .
}

base=docker.io/library/debian:bookworm-slim
make_base() {
    buildah pull -q "$base" >/dev/null 2>&1 && return 0
    tools/deps.sh mmdebstrap >/dev/null 2>&1 || return 1
    local root container
    root=$(mktemp -d)
    mmdebstrap --quiet --mode=root --variant=minbase bookworm "$root/base.tar" \
        /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null ||
        mmdebstrap --quiet --mode=root --variant=minbase bookworm "$root/base.tar" || return 1
    container=$(buildah from scratch)
    buildah add -q "$container" "$root/base.tar" / >/dev/null
    buildah commit -q "$container" "$base" >/dev/null
    buildah rm "$container" >/dev/null
    rm -rf "$root"
}

end_test() {
    kill "$daemon" 2>/dev/null || true
    wait || true
    buildah rm "$container" >/dev/null
    buildah rmi stowd-test >/dev/null
}

run_test() {
    [ "$(id -u)" = 0 ] || skip "building an image in the test needs root"
    tools/deps.sh buildah >/dev/null 2>&1 || skip "buildah cannot be installed"
    export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
    buildah from --name stowd-probe scratch >/dev/null 2>&1 || skip "buildah cannot work here"
    buildah rm stowd-probe >/dev/null
    make_base || skip "no base image: neither pulled nor made from packages"
    buildah bud -q --format docker -t stowd-test . || { echo "image: build failed"; exit 1; }

    container=$(buildah from stowd-test)
    # As it comes it lets nobody in unasked: it ends, and says what is missing.
    said=$(buildah run --user stowd "$container" -- stowd -E path.data=/var/lib/stowd \
        -E network.host=0.0.0.0 2>&1) && code=0 || code=$?
    [ "$code" = 78 ] && [[ $said == *"security.enabled: false"* ]] ||
        { echo "image: exit $code without users: $said"; exit 1; }
    port=$((20000 + RANDOM % 10000))
    trap end_test EXIT
    buildah run --user stowd "$container" -- stowd -E path.data=/var/lib/stowd \
        -E network.host=127.0.0.1 -E http.port=$port 2>/dev/null &
    daemon=$!
    url=http://127.0.0.1:$port
    for _ in $(seq 100); do
        curl -fs "$url/" >/dev/null && break
        sleep 0.1
    done
    curl -fsS -X PUT -H 'Content-Type: application/json' -d '{"v": 1.0}' "$url/i/_doc/1"
    [ "$(curl -fsS "$url/i/_source/1")" = '{"v": 1.0}' ] || { echo "image: wrong document"; exit 1; }
    user=$(buildah inspect --format '{{.OCIv1.Config.User}}' "$container")
    [ "$user" = stowd ] || { echo "image: runs as '$user'"; exit 1; }
    check=$(buildah inspect --format '{{index .Docker.Config.Healthcheck.Test 3}}' "$container")
    buildah run --user stowd "$container" -- bash -c "${check/9200/$port}" ||
        { echo "image: HEALTHCHECK fails on a healthy daemon"; exit 1; }
    if buildah run --user stowd "$container" -- bash -c "${check/9200/1}" 2>/dev/null; then
        echo "image: HEALTHCHECK does not notice that nothing listens"
        exit 1
    fi
    echo
    echo "1 passed, 0 failed"
}

case "${1:-}" in
build) build "${2:-stowd:latest}" ;;
test) run_test ;;
*) sed -n '3,6p' "$0"; exit 2 ;;
esac
