#!/usr/bin/env bash
# Never comes to an end, is deaf to a polite end, and leaves a helper in a session of its own.
trap '' TERM
setsid sleep 1000 &
sleep 1000
