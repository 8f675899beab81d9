#!/bin/sh
# A producer in a shell: it creates a thread, looks at the question about it, answers it, and follows its log.
# Usage: follow.sh ID [CHOICE]. INTERLOCK_API_URL and INTERLOCK_API_TOKEN say where the API is, and who calls; without
# them it is the API of the `interlock up` that runs in this folder.
set -eu
url=${INTERLOCK_API_URL:-http://127.0.0.1:8470}/v1
id=$1
choice=${2:-begin}

# Not as an argument of curl, which every user of this computer could read.
shown() {
  if [ -n "${INTERLOCK_API_TOKEN:-}" ]; then
    printf 'Authorization: Bearer %s\n' "$INTERLOCK_API_TOKEN"
  else
    cat "${INTERLOCK_HOME:-.interlock}/api.header"
  fi
}

call() {
  shown | curl -sS --fail-with-body -H @- -H 'Content-Type: application/json' "$@"
}

# The key is the id: the call can be repeated after a lost answer, and creates one thread.
call "$url/records" -H "Idempotency-Key: $id" -d '{"machine": "thread", "payload": {"hold": true,
  "inciting": {"source": "shell", "title": "Call the dentist"}}}'
echo

# The question, and the version of the record that it is about.
card=$(call "$url/records/$id:cards")
proposal=$(printf %s "$card" | sed -n 's/.*"proposal":"\([^"]*\)".*/\1/p')
seen=$(call -D - -o /dev/null "$url/records/$id" | sed -n 's/^[Ee][Tt]ag: \("[0-9]*"\).*/\1/p')
printf '%s\n' "$card" | sed 's/.*"question":"\([^"]*\)".*/\1/'

# Somebody who has answered first makes this a 412, with the record as it is now.
call "$url/records/$id:decide" -H "If-Match: $seen" -H "Idempotency-Key: answer-$id" \
  -d "{\"choice\": \"$choice\", \"proposal\": \"$proposal\"}" > /dev/null

# Every line of the log, each with its position. After a lost connection, send the last one: Last-Event-ID.
# curl ends with 28 when the time is up.
call -N --max-time "${SECONDS_TO_FOLLOW:-10}" "$url/records/$id:events" || [ $? -eq 28 ]
