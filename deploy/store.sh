#!/bin/sh
# Writes the users' file with the digests of their passwords, then runs the server in its place.
# It fails if a password is missing or empty. Its arguments go to the server, as in `--maxmemory 4gb`.
set -eu

folder=$(dirname "$0")
users=${STORE_USERS:-/tmp/users.acl}

digest() {
    printf %s "$1" | sha256sum | cut -d ' ' -f 1
}

umask 077
sed -e "s/@WORKER@/$(digest "${WORKER_PASSWORD:?give the worker user a password}")/" \
    -e "s/@PRODUCER@/$(digest "${PRODUCER_PASSWORD:?give the producer user a password}")/" \
    -e "s/@OPERATOR@/$(digest "${OPERATOR_PASSWORD:?give the operator user a password}")/" \
    -e "s/@SENDER@/$(digest "${SENDER_PASSWORD:?give the sender user a password}")/" \
    -e "s/@FLOWER@/$(digest "${FLOWER_PASSWORD:?give the flower user a password}")/" \
    "$folder/users.acl" >"$users"

exec valkey-server "$folder/store.conf" --dir "${STORE_DATA:-/data}" --aclfile "$users" "$@"
