#!/usr/bin/env bash
# Never ends, ignores SIGTERM, and starts a helper in a session of its own.
trap '' TERM
setsid sleep 1000 &
sleep 1000
