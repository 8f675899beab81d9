--@use clock
-- Keeps a new access token. Its lifetime begins now.
-- KEYS     tokens
-- ARGV     id, digest, fields*, lifetime_ms
-- Returns  {'kept' | 'taken', ms of now, ms of its expiry (0: never)}
-- A lifetime of 0 is without end.
local expires_ms = plan.lifetime_ms > 0 and now_ms + plan.lifetime_ms or 0
local kept = now_ms .. ' ' .. expires_ms .. ' ' .. plan.digest .. ' ' .. plan.fields
local status = redis.call('HSETNX', tokens, plan.id, kept) == 1 and 'kept' or 'taken'
return {status, now_ms, expires_ms}
