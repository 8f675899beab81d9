--@use clock
-- Finds the access token with this secret that is neither revoked nor expired. Notes its use, at
-- most once in a period.
-- KEYS     access tokens, revocations, times of last use
-- ARGV     id, digest of the secret that a caller gave, ms of the period
-- Returns  {'unknown' | 'revoked' | 'expired' | 'valid', the token as it is kept, or ''}
local tokens = KEYS[1]
local revoked = KEYS[2]
local used = KEYS[3]
local id = ARGV[1]
local digest = ARGV[2]
local period_ms = tonumber(ARGV[3])

local kept = redis.call('HGET', tokens, id)
if not kept then
  return {'unknown', ''}
end
local expires, kept_digest = string.match(kept, '^%d+ (%d+) (%x+) ')
if kept_digest ~= digest then
  return {'unknown', ''}
end
local expires_ms = tonumber(expires)
if redis.call('HEXISTS', revoked, id) == 1 then
  return {'revoked', kept}
end
if expires_ms > 0 and expires_ms <= now_ms then
  return {'expired', kept}
end
local used_ms = tonumber(redis.call('HGET', used, id) or '') or 0
if now_ms - used_ms >= period_ms then
  redis.call('HSET', used, id, now)
end
return {'valid', kept}
