--@use clock
-- Keeps a new access token. Its lifetime begins now.
-- KEYS     access tokens
-- ARGV     id, digest of its secret, fields, lifetime in ms (0: without end)
-- Returns  {'kept' | 'taken', ms of now, ms of its expiry (0: never)}
local tokens = KEYS[1]
local id = ARGV[1]
local digest = ARGV[2]
local fields = ARGV[3]
local lifetime_ms = tonumber(ARGV[4])

local expires_ms = lifetime_ms > 0 and now_ms + lifetime_ms or 0
local kept = now_ms .. ' ' .. expires_ms .. ' ' .. digest .. ' ' .. fields
local status = redis.call('HSETNX', tokens, id, kept) == 1 and 'kept' or 'taken'
return {status, now_ms, expires_ms}
